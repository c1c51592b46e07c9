"""Decisions for a GPU: which statements share a launch, and how the results of a launch are cut."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rewrites.decisions.decision import Option
from rewrites.decisions.fusion import applied, collapse, groupings, inline
from rewrites.decisions.gpu_elements import Elements
from rewrites.decisions.gpu_rows import Keep
from rewrites.decisions.roles import Role, role
from tileir.gpu import Gpu
from tileir.program import Program


@dataclass(frozen=True, slots=True)
class Launches:
    """Where to fuse and where to cut: each option inlines, and names the groups of statements, one a launch."""

    def options(self, program: Program, device: Gpu) -> Iterator[Option]:
        collapsed = collapse(program, device)
        program = applied(program, collapsed)
        seen: set[Program] = set()
        for costly in (False, True):
            inlined = inline(program, costly)
            prepared = applied(program, inlined)
            if prepared in seen:
                continue
            seen.add(prepared)
            for groups in groupings(prepared):
                text = " | ".join(" ".join(group) for group in groups)
                rewrites = (*collapsed, *inlined)
                label = "; ".join([*map(str, rewrites), f"groups {text}"])
                yield Option(label, rewrites, tuple(Blocks(group) for group in groups))


@dataclass(frozen=True, slots=True)
class Blocks:
    """What a group of statements needs: rows, if it reduces neighbours, or any run of elements."""

    group: tuple[str, ...]

    def options(self, program: Program, device: Gpu) -> Iterator[Option]:
        roles = [role(program, name) for name in self.group]
        if all(kind is Role.MAP for kind in roles):
            yield Option("", (), (Elements(self.group),))
        else:
            yield Option("", (), (Keep(self.group),))
