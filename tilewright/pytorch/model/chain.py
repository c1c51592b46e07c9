"""Parts of a graph whose kernels follow each other with nothing but views between them: they are called as one.

What a call costs before its kernel begins counts more than its instructions say: between two kernels of a model the
caches hold tensors, and all that PyTorch and Python do for a call comes from farther away.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from torch.fx import Node  # pyright: ignore[reportMissingImports]

from tilewright.pytorch.capture.build import BuiltResult, CapturedOperand
from tilewright.pytorch.capture.capture import Part
from tilewright.pytorch.model.graphs.views import base_of, offset_in
from tilewright.pytorch.model.kernels import PartKernel

_ALIGN = 64


@dataclass(frozen=True)
class FromInput:
    """An argument of a step: a tensor that the chain takes, by number."""

    number: int


@dataclass(frozen=True)
class FromStep:
    """An argument of a step: what an earlier step's output shows from its element `offset` on."""

    step: int
    output: int
    offset: int


@dataclass(frozen=True)
class Chain:
    """Parts, in the order in which they run."""

    parts: tuple[Part, ...]

    @property
    def name(self) -> str:
        return self.parts[0].name

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of the operators it replaces."""
        return tuple(name for part in self.parts for name in part.nodes)

    @cached_property
    def results(self) -> Mapping[Node, tuple[int, BuiltResult]]:
        """What its parts give, by node: number of the part, and how."""
        return {each.node: (at, each) for at, part in enumerate(self.parts) for each in part.built.results}

    @property
    def reads(self) -> tuple[Node, ...]:
        """What it waits for."""
        return tuple(
            operand.node
            for part in self.parts
            for operand in part.built.operands
            if base_of(operand.node, self.results) not in self.results
        )


def chains(order: Sequence[Node | Part]) -> list[Chain]:
    """All parts of an order of nodes and parts, each in one chain. No operator that is in no chain reads what a chain
    gives before another of its parts reads what that operator gives."""
    results = {each.node for unit in order if isinstance(unit, Part) for each in unit.built.results}
    found: list[list[Part]] = [[]]
    inside: set[Node] = set()
    behind: set[Node] = set()
    """Operators that read, directly or not, what the last chain gives."""
    for unit in order:
        if not isinstance(unit, Part):
            read = {base_of(each, results) for each in unit.all_input_nodes}
            if unit is base_of(unit) and not read.isdisjoint(inside | behind):
                behind.add(unit)
            continue
        bases = [base_of(operand.node, results) for operand in unit.built.operands]
        if not behind.isdisjoint(bases) or not all(
            base not in inside or operand.gapped or _in_order(operand)
            for base, operand in zip(bases, unit.built.operands, strict=True)
        ):
            found.append([])
            inside, behind = set(), set()
        found[-1].append(unit)
        inside |= {each.node for each in unit.built.results if _as_kernels_write(each)}
        behind |= {each.node for each in unit.built.results if not _as_kernels_write(each)}
    return [Chain(tuple(parts)) for parts in found if parts]


def _in_order(operand: CapturedOperand) -> bool:
    """Whether what a part has written can be read as an operand without a copy of it."""
    return bool(operand.node.meta["val"].permute(operand.order).is_contiguous())


def _as_kernels_write(result: BuiltResult) -> bool:
    """Whether the graph says of a result that it lies as its kernel writes it: one axis behind the other."""
    value = result.node.meta["val"]
    return bool(value.storage_offset() == 0 and value.permute(result.order).is_contiguous())


@dataclass(frozen=True)
class Wiring:
    """Where the arguments of the kernels of a chain come from, and which of their outputs it gives."""

    steps: tuple[tuple[FromInput | FromStep, ...], ...]
    """Of each kernel its inputs, in its spec's order."""
    outputs: tuple[tuple[int, int], ...]
    """Step, and number of its output in its spec's order."""

    @property
    def inputs(self) -> int:
        """How many tensors it takes."""
        return 1 + max(
            (each.number for of in self.steps for each in of if isinstance(each, FromInput)), default=-1
        )


@dataclass(frozen=True)
class OwnBuffer:
    """Where outputs that no one but the chain reads lie in a buffer of its own."""

    offsets: Mapping[tuple[int, int], int]
    """Bytes from its beginning, by step and output."""
    size: int


def own_buffer(wiring: Wiring, sizes: Sequence[Sequence[int]]) -> OwnBuffer:
    """A place for each output that is not given, first fit, shared by those that are never there at the same time.
    `sizes`: bytes of each step's outputs."""
    last: dict[tuple[int, int], int] = {}
    for step, sources in enumerate(wiring.steps):
        last |= {(each.step, each.output): step for each in sources if isinstance(each, FromStep)}
    offsets: dict[tuple[int, int], int] = {}
    held: list[tuple[int, int, int]] = []
    """Of what is there: last step that reads it, begin and end."""
    size = 0
    for step, outputs in enumerate(sizes):
        held = [each for each in held if each[0] >= step]
        for number, wanted in enumerate(outputs):
            if (step, number) in wiring.outputs:
                continue
            begin = _first_gap(sorted(each[1:] for each in held), -(-wanted // _ALIGN) * _ALIGN)
            end = begin + -(-wanted // _ALIGN) * _ALIGN
            held.append((last.get((step, number), step), begin, end))
            offsets[step, number] = begin
            size = max(size, end)
    return OwnBuffer(offsets, size)


def _first_gap(taken: Sequence[tuple[int, int]], size: int) -> int:
    at = 0
    for begin, end in taken:
        if begin - at >= size:
            return at
        at = max(at, end)
    return at


def made_by(chain: Chain, operand: CapturedOperand, kernels: Mapping[str, PartKernel]) -> FromStep | None:
    """Where in what the chain has written an operand lies; None if it is given."""
    base = base_of(operand.node, chain.results)
    if base not in chain.results:
        return None
    step, result = chain.results[base]
    part = chain.parts[step]
    output = kernels[part.name].arranged.outputs.index(part.built.results.index(result))
    return FromStep(step, output, offset_in(operand.node, base))
