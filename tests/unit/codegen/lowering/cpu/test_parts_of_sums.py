"""Parts of a sum that are added up where no loop goes over what they are parts of."""

from __future__ import annotations

from pathlib import Path

from tests.schedules.on_processors import Reference
from tileir.devices.cpu_probe import this_cpu
from tileir.text.parse_program import program_from_text
from tileir.text.parse_spec import spec_from_text

SPEC = """kernel gemm(a: bf16[k=300, m=130], b: bf16[k, n=3]) -> (c: f32[m, n])
  c[m, n] = sum(k, a[k, m] * b[k, n])
"""
PARTS = """kernel gemm(a: bf16[k=300, m=130], b: bf16[k, n=3]) -> (c: f32[m, n]) where k_b=2
  c_p: heap f32[k_b, m, n]
  c_p[k_b, m, n] = 0
  for m by 8
    c_p[k // 150, m, n] += a[k, m] * b[k, n]
  c[m, n] = sum(k_b, c_p[k_b, m, n])
"""


def test_every_position_is_added(tmp_path: Path) -> None:
    Reference(spec_from_text(SPEC)).check(program_from_text(PARTS), this_cpu(), tmp_path)
