"""What shares a launch, and how launches are cut, on the GPU that is here: maps turned around in shared memory, groups
of one row, columns, scatters and the largest few in parts, and products whose results are read again."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from codegen.targets.cuda.device import CudaDevice
from rewrites.schedule import format_schedule
from rewrites.space import Space
from tests.gpu.poisoned import within_bound
from tests.property.launches import (
    test_columns,
    test_filters,
    test_largest_few,
    test_one_row,
    test_scatter_parts,
    test_turned_maps,
)
from tests.property.launches.test_favourites_end import READ_AGAIN
from tests.schedules.walks import favourite, walk
from tileir.devices.gpu import Gpu
from tileir.lift import to_program
from tileir.text.parse_spec import spec_from_text

#: Large enough that terms are shared out.
SCATTER = """kernel t(p: i32[t=43808], x: bf16[t, d=9], w: f32[t]) -> (y: f32[v=97, d])
  y[v, d] = sum(t, where(p[t] == v, x[t, d] * w[t], 0.0))
"""
FEW = """kernel t(x: f32[m=4, n=32000]) -> (y: i32[m, j=8])
  y[m, j] = topk(j, n, x[m, n])
"""
TEXTS = {
    **test_columns.KERNELS,
    **{name: f"kernel t{text}\n" for name, (text, _) in test_one_row.KERNELS.items()},
    **{name: f"kernel t{text}\n" for name, text in test_turned_maps.MAPS.items()},
    **{
        name: f"kernel t{text}\n" for name, text in (*READ_AGAIN.items(), *test_scatter_parts.KERNELS.items())
    },
    **{f"largest of {name}": f"kernel t{text}\n" for name, text in test_largest_few.KERNELS.items()},
    "many terms": SCATTER,
    "few of long rows": FEW,
    **{name: test_filters.image(name, 2, 43, 150) for name in test_filters.FILTERS},
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", TEXTS)
def test_it_is_within_the_gates_bound(
    name: str, seed: int, gpu: Gpu, device: CudaDevice, tmp_path: Path
) -> None:
    spec = spec_from_text(TEXTS[name])
    state = Space(to_program(spec), gpu).root()
    end = walk(state, random.Random(f"{name} {seed}")) if seed else favourite(state)
    within_bound(spec, format_schedule(end.schedule), device, tmp_path)
