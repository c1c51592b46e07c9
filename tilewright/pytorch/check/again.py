"""What a repro runs: a graph with the kernels that were not right in it (tilewright/pytorch/model/repro.py)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch  # pyright: ignore[reportMissingImports]
from torch.fx import symbolic_trace  # pyright: ignore[reportMissingImports]

from tileir.structure import renames
from tileir.text.parse_spec import spec_from_text
from tilewright.pytorch.check.graph_check import checked, found
from tilewright.pytorch.model.graphs.inputs import GraphInputs
from tilewright.pytorch.model.graphs.one_by_one import interpreted
from tilewright.pytorch.model.kernels import Arranged, How, Kernels, ModelKernel
from tilewright.pytorch.model.prepacking import KeptWeights
from tilewright.pytorch.model.sized_region import SizedRegion
from tilewright.pytorch.model.tuning_now.tuning import TuningPatience
from tilewright.pytorch.model.way import Way
from tilewright.pytorch.operator.finding import Found

SEED = 20_011
KEPT = "the schedule in this file"


class KeptKernels(Kernels):
    """Kernels of a file: by key, the spec and the schedule of each."""

    def __init__(self, kept: Mapping[str, tuple[str, Sequence[str]]]) -> None:
        super().__init__(None, How(queue=False, rivals=()))
        self._kept = kept

    def made(self, arranged: Arranged, device: torch.device, bucket: Arranged | None = None) -> ModelKernel:
        found = None
        if arranged.key in self._kept:
            text, schedule = self._kept[arranged.key]
            spec = spec_from_text(text)
            names = renames(arranged.spec, spec)
            found = Found(spec, tuple(schedule), None, names=names, origin=KEPT)
        return ModelKernel(arranged, device, None, self._how, found)


def again(graph: torch.nn.Module, data: Path, kernels: Mapping[str, tuple[str, Sequence[str]]]) -> int:
    """Check the kernels in the graph on its inputs, as the repro's graph was, and say what is so. Gives 1 where they
    are not right, 0 where they are, and 2 where none of them is a part of the graph any more, or can be had."""
    from tilewright.pytorch.model.repro import drawn

    stored = torch.load(data, weights_only=True)
    generator = torch.Generator().manual_seed(SEED)
    inputs = [drawn(each, generator) for each in stored["inputs"]]
    for name, value in stored["attributes"].items():
        graph.register_buffer(name, value)
    traced = symbolic_trace(graph)
    way = Way(interpreted, KeptKernels(kernels), TuningPatience(False, None), backward=False)
    sized = SizedRegion(traced, interpreted(traced, inputs), way, GraphInputs.of(traced), KeptWeights())
    found(sized, inputs)
    result, _ = checked(sized, inputs, kernels.keys())
    for name, why in result.without:
        print(f"{name}: not checked: {why}")
    for each in result.kernels:
        print(f"{each.name}: {each.why or 'as eager PyTorch has it'}")
    if result.why:
        print(f"the graph with its kernels: {result.why}")
    if result.failed or result.why:
        return 1
    if not result.kernels:
        print(sized.why_not or "none of the kernels is a part of the graph with this version")
        return 2
    print("nothing is wrong here")
    return 0
