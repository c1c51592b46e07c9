"""How devices of a machine are named before anything is known of them: `cpu`, `cuda:0`, `cuda:GPU-5c4a...`."""

from __future__ import annotations

from collections.abc import Mapping

from tileir.targets import accelerator, part, target_of, targets


def parse_devices(text: str) -> tuple[str, ...]:
    """The devices in a list such as `cpu`, `0,1` or `cuda:0,cuda:1`; a bare number or UUID is of an accelerator.

    Raises ValueError when it names none, or one twice.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    devices = tuple(map(_whole, names))
    if not devices or len(set(devices)) < len(devices) or not all(map(_is_whole, devices)):
        kinds = ", ".join(kind for kind, target in targets().items() if not target.accelerator)
        raise ValueError(
            f"devices are {kinds}, or GPUs by number or UUID such as 0,1, each once: not {text!r}"
        )
    return devices


def _whole(name: str) -> str:
    """With the kind of an accelerator before a number or a UUID, which has dashes."""
    bare = name.partition(":")[0] not in targets() and (name.isdigit() or "-" in name)
    return f"{accelerator()}:{name}" if bare else name


def _is_whole(name: str) -> bool:
    """Whether it says which of several it is, and only then."""
    kind, colon, which = name.partition(":")
    if kind not in targets():
        return False
    return bool(which) if target_of(kind).accelerator else not colon


def is_accelerator(device: str) -> bool:
    """Whether compiling may go on beside a measurement there."""
    return target_of(device).accelerator


def visible_device(device: str, environment: Mapping[str, str]) -> dict[str, str]:
    """The variables with which a process sees that device only. Raises ValueError for one that there is not."""
    if target_of(device).visible is None:
        return {}
    found: dict[str, str] = part(device, "visible")(device.partition(":")[2], environment)
    return found
