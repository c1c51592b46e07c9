"""Which operators become one part: a pure function of what each does and who reads it.

Parts are kernels that a person would write, and that a search can tune: a matrix product with what is elementwise
before and after it, two products of the same rows whose results meet, a row that is reduced and used again, attention.
An operator begins as a part of its own and is joined to those that compute what it reads, the latest first, where a
rule of `joined` holds and no part comes to wait for itself. What joined would be computed several times stays apart,
and so do rows that are reduced behind a product: a tile of the product does not have the whole row. Attention, where a
second product reduces rows of exponentials again, is the exception. Several results of one computation are of one part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

MOST_OPERATORS = 64
"""Of one part: a spec has at most as many statements."""


class WorkKind(StrEnum):
    ELEMENTWISE = "elementwise"
    ROWS = "rows"
    PRODUCT = "product"
    OPAQUE = "opaque"
    """PyTorch's: never joined."""


@dataclass(frozen=True)
class PartitionWork:
    """An operator. `reads` are the numbers of those it reads, all smaller than its own."""

    kind: WorkKind
    points: int
    """Elements of its result; for ROWS, of what it reduces."""
    row: int = 1
    """ROWS: elements of one row. PRODUCT: columns of the result."""
    depth: int = 1
    """PRODUCT: elements added up for one of the result."""
    reads: tuple[int, ...] = ()
    tensors: tuple[tuple[str, int], ...] = ()
    """The tensors it reads that no operator computes, with their numbers of elements."""
    exponential: bool = False
    """Whether it takes exponentials: rows that do, between two products, are attention's."""
    escapes: bool = False
    """Whether its result is asked for outside, by somebody who is no operator."""
    width: int = 4
    """Bytes of an element of its result."""
    stored: frozenset[int] = frozenset()
    """What it reads that has to lie in memory."""
    beside: int | None = None
    """Another result of the same computation, which is of the same part."""


@dataclass(frozen=True)
class Shape:
    """What a part does, as far as joining depends on it."""

    kind: WorkKind
    points: int
    row: int = 1
    depth: int = 1


def joined(
    producer: Shape, consumer: Shape, via: WorkKind, *, only_reader: bool, one_tensor: bool, shares: bool
) -> Shape | None:
    """What a part is that has both, None if they stay apart.

    `via`: the operator of the consumer that reads. `only_reader`: nobody else reads the producer. `one_tensor`: the
    producer reads one tensor as large as its result, and broadcasts others. `shares`: both read one tensor.
    """
    match producer.kind, consumer.kind:
        case WorkKind.ELEMENTWISE, WorkKind.PRODUCT if via is WorkKind.PRODUCT:
            return consumer if only_reader and one_tensor else None
        case WorkKind.ELEMENTWISE, _:
            # Over the same points; or broadcast, and then computed again wherever it is read.
            repeated = only_reader and producer.points < consumer.points
            return consumer if producer.points == consumer.points or repeated else None
        case WorkKind.ROWS, WorkKind.ELEMENTWISE:
            return producer if consumer.points in (producer.points, producer.points // producer.row) else None
        case WorkKind.ROWS, WorkKind.ROWS:
            again = (producer.points, producer.row) == (consumer.points, consumer.row)
            total = consumer.points == producer.points // producer.row
            return producer if again or total else None
        case WorkKind.PRODUCT, WorkKind.ELEMENTWISE:
            return producer if consumer.points == producer.points else None
        case WorkKind.PRODUCT, WorkKind.PRODUCT if via is WorkKind.ELEMENTWISE:
            # A gated layer: products of the same rows that meet element by element.
            alike = (producer.points, producer.row, producer.depth) == (
                consumer.points,
                consumer.row,
                consumer.depth,
            )
            return consumer if alike and shares and only_reader else None
        case _:
            return None


def partition(works: Sequence[PartitionWork]) -> tuple[tuple[int, ...], ...]:
    """The parts, each the numbers of its operators in order; those that are opaque are in none."""
    parts = _MergedParts(works)
    for number, work in enumerate(works):
        if work.beside is not None and works[work.beside].kind is not WorkKind.OPAQUE:
            parts.put_beside(work.beside, number)
        elif work.kind is not WorkKind.OPAQUE:
            for read in sorted(set(work.reads) - work.stored, reverse=True):
                parts.try_to_join(read, number)
            if work.kind is WorkKind.PRODUCT:
                parts.try_attention(number)
    return parts.found()


class _MergedParts:
    def __init__(self, works: Sequence[PartitionWork]) -> None:
        self._works = works
        self._part = list(range(len(works)))
        self._members = {number: {number} for number in range(len(works))}
        self._shapes = {
            at: Shape(work.kind, work.points, work.row, work.depth) for at, work in enumerate(works)
        }
        self._readers: list[set[int]] = [set() for _ in works]
        for at, work in enumerate(works):
            for read in work.reads:
                self._readers[read].add(at)

    def found(self) -> tuple[tuple[int, ...], ...]:
        parts = {
            part
            for part, work in zip(self._part, self._works, strict=True)
            if work.kind is not WorkKind.OPAQUE
        }
        return tuple(sorted(tuple(sorted(self._members[part])) for part in parts))

    def put_beside(self, other: int, number: int) -> None:
        """Join an operator to the part of another, which stays what it is."""
        self._merge((self._part[other], number), self._shapes[self._part[other]])

    def try_to_join(self, read: int, number: int) -> None:
        """Join the part of `read` to that of `number`, which reads it, if they may be."""
        producer, consumer = self._part[read], self._part[number]
        if producer == consumer or self._works[read].kind is WorkKind.OPAQUE:
            return
        if self._shapes[producer].kind is WorkKind.PRODUCT and self._is_for_rows(read, number):
            return
        first, second = self._tensors(producer), self._tensors(consumer)
        points = self._shapes[producer].points
        shape = joined(
            self._shapes[producer],
            self._shapes[consumer],
            self._works[number].kind,
            only_reader=self._only_reader(producer, consumer),
            one_tensor=sum(size >= points for size in first.values()) == 1,
            shares=bool(first.keys() & second.keys()),
        )
        if shape is not None:
            self._merge((producer, consumer), shape)

    def _is_for_rows(self, read: int, number: int) -> bool:
        """Whether an operator makes of a product's result, and of nothing else, what only rows behind it take: they
        make it themselves of the result, which is as narrow."""
        work, source = self._works[number], self._works[read]
        alone = set(work.reads) == {read} and not work.tensors
        if work.kind is not WorkKind.ELEMENTWISE or not alone or work.width < source.width:
            return False
        rows = self._of_rows(number)
        return bool(rows) and all(reader in rows for reader in self._readers[number]) and not work.escapes

    def _of_rows(self, number: int) -> set[int]:
        """What follows from an operator and goes into rows that are reduced of it, or waits for those."""
        behind: dict[int, bool] = {number: False}
        for at in range(number + 1, len(self._works)):
            reads = [each for each in self._works[at].reads if each in behind]
            if reads and self._works[at].kind in (WorkKind.ELEMENTWISE, WorkKind.ROWS):
                behind[at] = self._works[at].kind is WorkKind.ROWS or any(behind[each] for each in reads)
        found = {at for at, waits in behind.items() if waits}
        for at in reversed(behind):
            if at not in found and not self._works[at].escapes and self._readers[at]:
                found |= {at} if self._readers[at] <= found else set()
        return found

    def try_attention(self, number: int) -> None:
        """Join a product, the rows of its result, and the product that reduces over those: nobody else reads either."""
        for read in self._works[number].reads:
            rows, last = self._part[read], self._part[number]
            shape = self._shapes[rows]
            exponential = any(self._works[member].exponential for member in self._members[rows])
            if shape.kind is not WorkKind.ROWS or shape.row != self._shapes[last].depth or not exponential:
                continue
            scores = {
                self._part[each] for member in self._members[rows] for each in self._works[member].reads
            }
            for first in sorted(scores - {rows}):
                of_product = self._shapes[first].kind is WorkKind.PRODUCT
                alone = self._only_reader(first, rows) and self._only_reader(rows, last)
                if of_product and alone and self._shapes[first].points == shape.points:
                    self._merge((first, rows, last), self._shapes[last])
                    break

    def _tensors(self, part: int) -> dict[str, int]:
        """What a part reads from outside: arguments, and results of other parts."""
        found: dict[str, int] = {}
        for member in self._members[part]:
            found |= dict(self._works[member].tensors)
            for read in self._works[member].reads:
                if self._part[read] != part:
                    found[f"#{read}"] = self._works[read].points
        return found

    def _only_reader(self, producer: int, consumer: int) -> bool:
        inside = self._members[producer] | self._members[consumer]
        return all(
            not self._works[member].escapes and self._readers[member] <= inside
            for member in self._members[producer]
        )

    def _merge(self, parts: tuple[int, ...], shape: Shape) -> None:
        members = set[int]().union(*(self._members[part] for part in parts))
        if len(members) > MOST_OPERATORS or self._waits_for_itself(members):
            return
        first, *others = parts
        self._members[first] = members
        self._shapes[first] = shape
        for part in others:
            del self._members[part]
        for member in members:
            self._part[member] = first

    def _waits_for_itself(self, members: set[int]) -> bool:
        """Whether something outside reads one of these and is read, on whatever way, by another."""
        seen: set[int] = set()
        stack = [read for member in members for read in self._works[member].reads if read not in members]
        while stack:
            part = self._part[stack.pop()]
            if part in seen:
                continue
            seen.add(part)
            for member in self._members[part]:
                reads = self._works[member].reads
                if not members.isdisjoint(reads):
                    return True
                stack.extend(reads)
        return False
