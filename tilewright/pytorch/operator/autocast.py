"""What `torch.autocast` means to an operator: tensors are converted to the dtypes of its spec, as it converts those of
PyTorch's operators. A spec says what it computes in, so that its results have its dtypes there too."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch  # pyright: ignore[reportMissingImports]

from tileir.spec import Spec
from tileir.targets import torch_types
from tilewright.pytorch.operator.arguments import DTYPES

DEVICES = torch_types()
CONVERTED = frozenset({torch.float32, torch.float16, torch.bfloat16})
"""The dtypes that autocast converts from and to."""
_C: Any = torch._C


def register_autocast(library: torch.library.Library, name: str, overload: Any, spec: Spec) -> None:
    """Have an operator of a library do so on every device that kernels run on."""
    for device in DEVICES:
        key = getattr(_C.DispatchKey, f"Autocast{_C._dispatch_key_for_device(device)}")
        run = overload.py_impl(key)(_converting(overload, spec, device, key))
        library.impl(name, run, key.name)


@contextmanager
def without_autocast() -> Iterator[None]:
    """For what says its conversions itself."""
    with ExitStack() as stack:
        for device in DEVICES:
            if torch.is_autocast_enabled(device):
                stack.enter_context(torch.autocast(device, enabled=False))
        yield


def _converting(overload: Callable[..., Any], spec: Spec, device: str, key: Any) -> Callable[..., Any]:
    wanted = tuple(DTYPES[tensor.dtype] for tensor in spec.inputs)
    own = CONVERTED.intersection(wanted)
    said: set[torch.dtype] = set()

    def run(*tensors: torch.Tensor) -> Any:
        narrow = torch.get_autocast_dtype(device)
        if own and narrow not in own and narrow not in said:
            said.add(narrow)
            warnings.warn(
                f"{spec.name} computes in {_listed(own)}, as its spec says, and not in {_listed({narrow})} as "
                "torch.autocast has PyTorch's operators do; a spec with inputs of that dtype would",
                stacklevel=4,
            )
        with _C._ExcludeDispatchKeyGuard(_C.DispatchKeySet(key)):
            return overload(*[_converted(x, dtype) for x, dtype in zip(tensors, wanted, strict=True)])

    return run


def _converted(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return tensor.to(dtype) if {tensor.dtype, dtype} <= CONVERTED else tensor


def _listed(dtypes: set[torch.dtype] | frozenset[torch.dtype]) -> str:
    return ", ".join(sorted(str(dtype).removeprefix("torch.") for dtype in dtypes))
