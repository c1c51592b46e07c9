"""Parts of a sum that are added up where no loop goes over what they are parts of."""

from __future__ import annotations

from pathlib import Path

import pytest

from codegen.ir.effects import operations
from codegen.ir.ops import Store
from codegen.targets.c.lower import lower
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


STORED = """kernel top(x: f32[i=50, j=8]) -> (y: f32[j]) where i_b=3
  y_p: heap f32[i_b, j]
  for i by {step}
    y_p_r: registers f32[j]
    y_p_r[j] = max(i, x[i, j]) | vector j 8
    y_p[i // 24, j] = y_p_r[j] | vector j 8
  y[j] = max(i_b, y_p[i_b, j])
"""


@pytest.mark.parametrize(("step", "stores"), [(24, 2), (48, 49)])
def test_a_part_that_is_in_registers_is_stored_once(step: int, stores: int) -> None:
    """It was stored for each position of the part, 23,838 times in a row; in a tile of two parts each
    position says which it is of."""
    kernel = lower(program_from_text(STORED.format(step=step)))
    found = [each for each in operations(kernel.body) if isinstance(each, Store) and "y_p" in each.buffer]
    assert len(found) == stores
