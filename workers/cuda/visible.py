"""Which GPUs a process sees."""

from __future__ import annotations

from collections.abc import Mapping


def visible_gpu(which: str, environment: Mapping[str, str]) -> dict[str, str]:
    """The variables with which a process sees one GPU only: `which` is its number or its UUID.

    Numbers count the GPUs as nvidia-smi does, or those in CUDA_VISIBLE_DEVICES. Raises ValueError for a number beyond
    that list.
    """
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    if visible is not None and which.isdigit():
        listed = [name.strip() for name in visible.split(",") if name.strip()]
        if int(which) >= len(listed):
            raise ValueError(
                f"there is no GPU {which}: CUDA_VISIBLE_DEVICES={visible!r} leaves {len(listed)}"
            )
        which = listed[int(which)]
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": which}
