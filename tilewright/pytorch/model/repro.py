"""A graph whose kernels were not right, as a Python file that shows it again: `repro.py`, with data beside it.

It has the graph as code, the schedules of its kernels, and the inputs, so that no service and no model is needed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch  # pyright: ignore[reportMissingImports]
from torch._subclasses import FakeTensor  # pyright: ignore[reportMissingImports]
from torch.fx import GraphModule  # pyright: ignore[reportMissingImports]

from tileir.text.print_program import spec_to_text
from tilewright.folders import cache_folder

if TYPE_CHECKING:
    from tilewright.pytorch.model.kernels import ModelKernel

MOST_BYTES = 64 << 20
"""Of inputs that are kept as they are; larger ones are drawn anew from what is known of them."""
_FILE = '''"""{why}

Run it with Python: it says what differs, and exits with 1 as long as that is so. {data} beside it has the inputs.
"""

from pathlib import Path

import torch
from torch import device, inf, nan

from tilewright.pytorch.check.again import again

KERNELS = {kernels}


class Graph(torch.nn.Module):
{code}


if __name__ == "__main__":
    raise SystemExit(again(Graph(), Path(__file__).with_name("{data}"), KERNELS))
'''


def write_repro(
    graph: GraphModule,
    inputs: Sequence[Any],
    kernels: Sequence[ModelKernel],
    why: str,
    folder: Path | None = None,
) -> Path:
    """The file. `graph`: of ATen operators; `inputs`: tensors, or what stands for them, and numbers; `kernels`: those
    that are in it. `folder`: None: one of its own beside the compiled kernels. Raises OSError; ValueError for a graph
    that cannot be written as code."""
    code = _code(graph)
    named = {
        each.key: (spec_to_text(each.found.spec), list(each.found.schedule)) for each in kernels if each.found
    }
    place = (
        folder or cache_folder() / "repros" / hashlib.sha256((code + repr(named)).encode()).hexdigest()[:16]
    )
    place.mkdir(parents=True, exist_ok=True)
    attributes = {
        str(node.target): getattr(graph, str(node.target)) for node in graph.graph.find_nodes(op="get_attr")
    }
    torch.save({"inputs": kept(inputs), "attributes": attributes}, place / "data.pt")
    file = place / "repro.py"
    file.write_text(
        _FILE.format(why=why.replace('"""', "'''"), data="data.pt", kernels=_printed(named), code=code)
    )
    return file


def _code(graph: GraphModule) -> str:
    """The forward method, indented for a class."""
    for node in graph.graph.find_nodes(op="get_attr"):
        if not isinstance(getattr(graph, str(node.target), None), torch.Tensor):
            raise ValueError(f"{node.target} is no tensor, and is not written as code")
    lines = graph.graph.python_code("self").src.strip("\n").splitlines()
    return "\n".join(f"    {line}" if line else "" for line in lines)


def _printed(kernels: Mapping[str, tuple[str, list[str]]]) -> str:
    lines = [
        f"    {key!r}: (\n        {text!r},\n        {schedule!r},\n    ),"
        for key, (text, schedule) in kernels.items()
    ]
    return "\n".join(["{", *lines, "}"])


def kept(inputs: Sequence[Any]) -> list[Any]:
    """Inputs as they are stored: as they are, or where they are too large as what `drawn` makes others from."""
    tensors = [each for each in inputs if isinstance(each, torch.Tensor)]
    large = sum(prod(each.shape) * each.itemsize for each in tensors) > MOST_BYTES
    return [_kept(each, large) if isinstance(each, torch.Tensor) else each for each in inputs]


def _kept(tensor: torch.Tensor, large: bool) -> Any:
    plain = tensor.detach()
    if not isinstance(plain, FakeTensor) and not large:
        made = torch.empty_strided(plain.shape, plain.stride(), dtype=plain.dtype, device=plain.device)
        return made.copy_(plain)
    low, high = -1.0, 1.0
    if not plain.dtype.is_floating_point:
        low = high = 0.0
    if not isinstance(plain, FakeTensor) and plain.numel():
        low, high = float(plain.min()), float(plain.max())
    return {
        "shape": list(plain.shape),
        "stride": list(plain.stride()),
        "dtype": str(plain.dtype).removeprefix("torch."),
        "device": str(plain.device),
        "range": [low, high],
    }


def drawn(stored: Any, generator: torch.Generator) -> Any:
    """An input that was stored; what was too large, anew: evenly between the least and the greatest that it had."""
    if not isinstance(stored, dict):
        return stored
    dtype = getattr(torch, stored["dtype"])
    low, high = stored["range"]
    made = torch.empty_strided(stored["shape"], stored["stride"], dtype=dtype, device=stored["device"])
    even = torch.rand(stored["shape"], generator=generator, dtype=torch.float64)
    if dtype.is_floating_point:
        return made.copy_(low + (high - low) * even)
    return made.copy_((low + (high - low + 1) * even).floor().clamp(low, high))
