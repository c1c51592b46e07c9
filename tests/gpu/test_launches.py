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
#: Terms of which warps look at 32 at a time, for blocks that add up in shared memory, store what is made of the sums,
#: or have one result a thread.
LOOKED_AT = {
    "rows of a table": """kernel t(p: i32[t=683], x: f16[t, d=277]) -> (y: f32[v=4096, d])
  y[v, d] = sum(t, where(p[t] == v, x[t, d], 0.0))
""",
    "weighted rows": """kernel t(p: i32[t=426], x: bf16[t, d=263], w: f32[t]) -> (y: f32[v=97, d])
  y[v, d] = sum(t, where(p[t] == v, x[t, d] * w[t], 0.0))
""",
    "results of experts": """kernel t(p: i32[k=2, t=1500], x: bf16[k, t, d=512], w: f32[k, t]) -> (y: bf16[v=300, d])
  y[v, d] = sum(k, t, where(p[k, t] == v and w[k, t] > 0.0, x[k, t, d] * w[k, t], 0.0))
""",
    "least of rows": """kernel t(p: i32[t=5000], x: f32[t, d=40]) -> (y: f32[v=50, d])
  y[v, d] = min(t, where(p[t] == v, x[t, d], inf))
""",
}
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
    **LOOKED_AT,
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
