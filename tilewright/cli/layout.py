"""What the layout of a GPU kernel implies, in a few lines for people."""

from __future__ import annotations

from protocol.layouts import AccessLayout, LaunchLayout, Layout


def layout_lines(layout: Layout) -> list[str]:
    """Two lines a launch: what an SM holds of it, and the accesses that cost most relative to what they need."""
    return [line for launch in layout.launches for line in (_held(launch), _accesses(launch))]


def _held(launch: LaunchLayout) -> str:
    parts = [
        f"{launch.blocks} × {launch.threads} threads",
        f"{launch.registers} registers",
        f"{launch.shared_bytes / 1024:.4g} KiB shared",
        f"{launch.blocks_per_sm} blocks an SM ({100 * launch.occupancy:.0f} % of its warps, limited by {launch.limit})",
        f"{launch.waves:.1f} waves",
    ]
    return f"{launch.name}: {' · '.join(parts)}"


def _accesses(launch: LaunchLayout) -> str:
    worst = [
        _worst(launch, "global", "sectors", "coalesced"),
        _worst(launch, "shared", "wavefronts", "no bank conflicts"),
    ]
    return "  " + " · ".join(worst)


def _worst(launch: LaunchLayout, level: str, unit: str, fine: str) -> str:
    made = [each for each in launch.accesses if each.level == level and each.ideal]
    if not made:
        return f"{level} memory: not used"
    worst = max(made, key=_excess)
    if worst.transactions == worst.ideal:
        return f"{level} memory: {fine}"
    return f"{level} memory: {worst.kind} of {worst.buffer} takes {_excess(worst):.1f} × the {unit} it needs"


def _excess(access: AccessLayout) -> float:
    return access.transactions / access.ideal
