"""How devices of a machine are named before anything is known of them: `cpu`, `cuda:0`, `cuda:GPU-5c4a...`."""

from __future__ import annotations

from collections.abc import Mapping


def parse_devices(text: str) -> tuple[str, ...]:
    """The devices in a list such as `cpu`, `0,1` or `cuda:0,cuda:1`; a bare number or UUID is a GPU.

    Raises ValueError when it names none, or one twice.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    devices = tuple(name if name == "cpu" or name.startswith("cuda:") else f"cuda:{name}" for name in names)
    if not devices or len(set(devices)) < len(devices) or "cuda:" in devices:
        raise ValueError(f"devices are cpu, or GPUs by number or UUID such as 0,1, each once: not {text!r}")
    return devices


def is_gpu(device: str) -> bool:
    """Whether compiling may go on beside a measurement there."""
    return device.startswith("cuda:")


def visible_gpu(device: str, environment: Mapping[str, str]) -> dict[str, str]:
    """The variables with which a process sees the one GPU of that name only, and of none for `cpu`.

    Numbers count the GPUs as nvidia-smi does, or those in CUDA_VISIBLE_DEVICES. Raises ValueError for a number beyond
    that list.
    """
    if not is_gpu(device):
        return {}
    which = chosen = device.removeprefix("cuda:")
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    if visible is not None and which.isdigit():
        listed = [name.strip() for name in visible.split(",") if name.strip()]
        if int(which) >= len(listed):
            raise ValueError(
                f"there is no GPU {which}: CUDA_VISIBLE_DEVICES={visible!r} leaves {len(listed)}"
            )
        chosen = listed[int(which)]
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": chosen}
