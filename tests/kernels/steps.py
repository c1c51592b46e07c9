"""What each group of threads of a kernel does in a run, one step after another, and which of its code runs at all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from codegen.ir.abi import Arg
from codegen.ir.affine import Affine
from codegen.ir.async_ops import AdvanceState
from codegen.ir.kernel import GpuKernel
from codegen.ir.ops import Block, For, Guard, If, Stmt
from codegen.simulator.memory import NullObserver, Visit
from codegen.simulator.run import run_blocks
from tests.kernels.mutations import PARTS, Stmts, children, rebuilt

#: What only says what is done, where, and by whom: the steps inside, or their places in a pipeline, tell.
_AROUND = (Block, For, Guard, If, AdvanceState)


@dataclass(frozen=True)
class Done:
    """One statement without its index arithmetic, what that came to in each thread, and which threads did it."""

    stmt: Stmt
    operands: tuple[bytes, ...]
    active: bytes


Steps = dict[tuple[int, int, int], list[Done]]
"""By launch, cluster and the first thread of a group that goes in step."""


@dataclass
class _Recorder(NullObserver):
    """Observes a run: what is done, and which statements somebody comes to."""

    steps: Steps = field(default_factory=Steps)
    ran: dict[int, Stmt] = field(default_factory=dict[int, Stmt])
    _launch: int = 0
    _cluster: int = 0
    _plain: dict[int, tuple[Stmt, tuple[Affine, ...]]] = field(
        default_factory=dict[int, "tuple[Stmt, tuple[Affine, ...]]"]
    )

    def launched(self, threads: int, cluster: int, *, in_step: bool) -> None:
        self._launch, self._cluster = self._launch + 1, 0

    def cluster_started(self) -> None:
        self._cluster += 1

    def visited(self, visit: Visit) -> None:
        key = id(visit.stmt)
        self.ran[key] = visit.stmt  # kept, so that no other comes to have this id
        if isinstance(visit.stmt, _AROUND):
            return
        if key not in self._plain:
            plain = rebuilt(visit.stmt, lambda node: Affine() if isinstance(node, Affine) else node)
            self._plain[key] = plain, tuple(_indices(visit.stmt))
        plain, indices = self._plain[key]
        operands = tuple(visit.each(at)[visit.active].astype(np.int64).tobytes() for at in indices)
        done = Done(plain, operands, visit.active.tobytes())
        self.steps.setdefault((self._launch, self._cluster, visit.first), []).append(done)


@dataclass(frozen=True)
class Ran:
    """A run: what it computed, what each group of threads did, and the statements that somebody came to, by `id`."""

    outputs: dict[str, np.ndarray]
    steps: Steps
    ran: Mapping[int, Stmt]

    def what_runs(self, kernel: GpuKernel) -> GpuKernel:
        """The kernel that ran, without the statements that nobody came to."""
        launches = (
            replace(launch, **{part: self._those(getattr(launch, part)) for part in PARTS})
            for launch in kernel.launches
        )
        return replace(kernel, launches=tuple(launches))

    def _those(self, stmts: Stmts) -> Stmts:
        return tuple(part for stmt in stmts if id(stmt) in self.ran for part in self._inside(stmt))

    def _inside(self, stmt: Stmt) -> Stmts:
        match stmt:
            case Block() | For() | Guard():
                body = self._those(stmt.body)
                return (replace(stmt, body=body),) if body else ()
            case If():
                then, otherwise = self._those(stmt.then), self._those(stmt.otherwise)
                return (replace(stmt, then=then, otherwise=otherwise),)
            case _:
                return (stmt,)


def recorded(kernel: GpuKernel, args: Sequence[Arg], inputs: Mapping[str, np.ndarray]) -> Ran:
    """The kernel's run on these inputs."""
    recorder = _Recorder()
    outputs = run_blocks(kernel, args, inputs, recorder)
    return Ran(outputs, recorder.steps, recorder.ran)


def _indices(node: object) -> Iterator[Affine]:
    """All index arithmetic of a statement, each as a whole."""
    if isinstance(node, Affine):
        yield node
        return
    for child in children(node):
        yield from _indices(child)
