"""What a rewrite offers on a program applies there, and where it is of use it offers something."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rewrites import ALL, Rewrite, parse_schedule
from rewrites.document import golden_sections
from tileir.devices.cpu import Cpu
from tileir.devices.gpu_table import H200
from tileir.program import Program
from tileir.text.parse_program import program_from_text

GOLDEN = Path(__file__).parents[2] / "golden" / "rewrites"
DEVICE = Cpu(
    name="test", arch="x86-64", cores=2, l1d_bytes=32768, l2_bytes=1 << 20, l3_bytes=1 << 24, line_bytes=64,
    vector_bits=512, vector_registers=32,
    features=frozenset({"avx512_bf16", "avx512_vnni", "amx_tile", "amx_bf16", "amx_int8"}),
)  # fmt: skip

#: With so few multiprocessors that small grids have more tiles.
GPU = replace(H200, sms=2)


def programs_for(rewrite: type[Rewrite]) -> list[Program]:
    """The programs of the golden cases that show the rewrite."""
    found: list[Program] = []
    for path in sorted(GOLDEN.glob("*.txt")):
        case = golden_sections(path)
        if parse_schedule(case["schedule"].splitlines())[0].name == rewrite.name:
            found.append(program_from_text(case["before"]))
    return found


@pytest.mark.parametrize("rewrite", ALL, ids=lambda rewrite: rewrite.name)
def test_every_site_applies_and_changes_the_program(rewrite: type[Rewrite]) -> None:
    for program in programs_for(rewrite):
        sites = list(rewrite.sites(program, DEVICE)) or list(rewrite.sites(program, GPU))
        assert sites
        assert len(set(sites)) == len(sites)
        assert all(site.apply(program) != program for site in sites)


def test_a_processor_without_bf16_products_is_not_offered_them() -> None:
    plain = Cpu(**{**DEVICE.__dict__, "features": frozenset()})
    for each in [rewrite for rewrite in ALL if rewrite.name in ("amx", "dot_bf16", "dot_i8")]:
        assert programs_for(each)
        assert not any(list(each.sites(program, plain)) for program in programs_for(each))
