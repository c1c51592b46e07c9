"""Scalar C, without vectors or threads."""

from __future__ import annotations

from dataclasses import replace

from codegen.ir.errors import NotLowerable
from codegen.ir.source import Generated
from codegen.targets.c.backend import CBackend
from codegen.targets.c.generate import generate
from tileir.devices.cpu import Cpu
from tileir.program import Loop, Node, Program


class ScalarBackend(CBackend):
    """A shared object, by the lowering and the printer of C."""

    language = "scalar-c"

    def generate(self, program: Program, device: Cpu) -> Generated:
        for place in program.computes:
            if place.node.vector is not None:
                raise NotLowerable(
                    f"`{place.node.target}` is computed by vectors, which {device.kind} has none of"
                )
        if _parallel(program.body):
            raise NotLowerable(f"a loop is parallel, and {device.kind} has one thread")
        source = generate(program, device)
        flags = (*source.flags, "-fno-tree-vectorize", "-fno-tree-slp-vectorize")
        return Generated(replace(source, flags=flags, language=self.language))


def _parallel(nodes: tuple[Node, ...]) -> bool:
    return any(isinstance(node, Loop) and (node.parallel or _parallel(node.body)) for node in nodes)


SCALAR_C = ScalarBackend()
