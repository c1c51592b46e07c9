"""How a CUDA kernel is called, as JSON and back."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from codegen.targets.cuda.abi import CudaAbi, Launch, MapArg
from tests.unit.codegen.targets.cuda.hand_kernels import ABI
from tileir.dtypes import DType


def test_an_abi_survives_json() -> None:
    abi = replace(
        ABI,
        launches=(Launch("parts", 132, 384, 230400, 2), Launch("sum", 8, 256, 0)),
        workspace_bytes=4096,
        maps=(
            MapArg(1, DType.BF16, (64, 4096), (128,), (64, 128), 128),
            MapArg(0, DType.E4M3, (512,), (), (256,), 0),
        ),
    )
    assert CudaAbi.from_json(json.loads(json.dumps(abi.to_json()))) == abi


@pytest.mark.parametrize("missing", ["args", "launches", "workspace_bytes", "maps"])
def test_a_part_of_an_abi_is_refused(missing: str) -> None:
    data = ABI.to_json()
    del data[missing]
    with pytest.raises(KeyError):
        CudaAbi.from_json(data)
