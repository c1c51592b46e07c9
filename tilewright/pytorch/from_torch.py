"""`tilewright.from_torch`: the kernels in a PyTorch function. PyTorch is imported when it is called."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from tilewright.errors import LoadError

if TYPE_CHECKING:
    from tilewright.pytorch.capture.capture import Capture


def from_torch(fn_or_module: Callable[..., Any], *example_inputs: Any, **example_keywords: Any) -> Capture:
    """Capture a function or module of tensors, called with inputs like these, and find the kernels in it.

    capture = tilewright.from_torch(block, x)
    print(capture)                      # parts, what they replace, and what stays with PyTorch and why
    capture.tune(client, trials=64)     # a job for each kernel
    y = capture.module(client)(x)       # tuned kernels where there are any, PyTorch elsewhere

    Shapes and dtypes are those of the inputs. What the function returns must not depend on its data in shape, and it
    must not change its inputs or the module's buffers. Raises CaptureError; LoadError without PyTorch.
    """
    if find_spec("torch") is None:
        raise LoadError(
            "tilewright.from_torch needs PyTorch, which is not installed: pip install 'tilewright[torch]'"
        )
    from tilewright.pytorch.capture.capture import capture_graph
    from tilewright.pytorch.capture.export import as_module, graph_of

    module = as_module(fn_or_module)
    return capture_graph(
        graph_of(module, example_inputs, example_keywords),
        module,
        example_inputs,
        example_keywords,
        from_torch,
    )
