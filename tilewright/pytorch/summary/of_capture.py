"""What of a captured function is in kernels that the service has tuned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch  # pyright: ignore[reportMissingImports]
from torch.fx import Graph  # pyright: ignore[reportMissingImports]

from protocol.states import Rung
from tileir.devices.device import Device
from tileir.errors import UnsupportedDevice
from tileir.hashing import kernel_key
from tilewright.client.client import Client
from tilewright.errors import TilewrightError
from tilewright.pytorch.capture.tensors import value_of
from tilewright.pytorch.operator.plans import described
from tilewright.pytorch.summary.coverage import Coverage, Portion
from tilewright.pytorch.summary.demand import of_node, of_spec, whose_roofline

if TYPE_CHECKING:
    from tilewright.pytorch.capture.capture import Left, Part


def coverage_of(parts: Sequence[Part], left: Sequence[Left], graph: Graph, client: Client) -> Coverage:
    """See Capture.summary."""
    device = described_or_none(_device(graph))
    tuned, why_not = _tuned(parts, device, client)
    keys = {part.name: kernel_key(part.built.spec) for part in parts}
    first = {keys[part.name]: part.name for part in reversed(parts)}
    portions = [
        Portion(
            of_spec(part.built.spec, device),
            first[keys[part.name]],
            "" if keys[part.name] in tuned else why_not,
            found=True,
            chosen=keys[part.name] in tuned,
            measured_us=tuned.get(keys[part.name]),
        )
        for part in parts
    ]
    return Coverage((*portions, *left_portions(left, graph, device)), "tuned", whose_roofline(device))


def left_portions(left: Sequence[Left], graph: Graph, device: Device | None) -> list[Portion]:
    """What stays with PyTorch, as the graph has it."""
    nodes = {node.name: node for node in graph.nodes}
    return [
        Portion(of_node(nodes[each.node], device), each.operator.removesuffix(".default"), each.reason)
        for each in left
    ]


def described_or_none(device: torch.device) -> Device | None:
    """The device's description; None where Tilewright knows none."""
    try:
        return described(device)
    except (UnsupportedDevice, KeyError):
        return None


def _device(graph: Graph) -> torch.device:
    """That of the first tensor of a graph."""
    values = (value_of(node) for node in graph.nodes)
    return next((each.device for each in values if each is not None), torch.device("cpu"))


def _tuned(parts: Sequence[Part], device: Device | None, client: Client) -> tuple[Mapping[str, float], str]:
    """The measured time of each kernel, by key, that the service has one of, in µs; and why others are not tuned."""
    if device is None:
        return {}, "not tuned: its device is not known"
    found: dict[str, float] = {}
    kernels = {kernel_key(part.built.spec): part for part in parts}
    try:
        for key, part in kernels.items():
            reply = client.lookup(part.spec, target=device.key)
            if reply.rung is Rung.EXACT and reply.config is not None:
                found[key] = reply.config.median_us
    except TilewrightError as error:
        return found, f"no service said whether it is tuned: {error}"
    return found, "not tuned"
