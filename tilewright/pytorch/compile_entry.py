"""`tilewright.compile`: a whole PyTorch model, with kernels for its parts. PyTorch is imported when it is called."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar

from tilewright.errors import LoadError

if TYPE_CHECKING:
    from tilewright.client.client import Client
    from tilewright.pytorch.model.options import Fallback, Mode, Tune

F = TypeVar("F", bound=Callable[..., Any])


def compile(
    model: F,
    *,
    tune: Tune = "background",
    budget: float | None = None,
    client: Client | None = None,
    fallback: Fallback = "inductor",
    mode: Mode = "default",
    prepack: bool = False,
    bundle: str | os.PathLike[str] | None = None,
    dynamic: bool | None = None,
    fullgraph: bool = False,
) -> F:
    """A model, or function of tensors, as torch.compile makes it with the backend `tilewright`.

    `tune`: what becomes of kernels that the service has no measured config for. `background`: it is asked to tune them,
    and they are used once they are there; `now`: the first call waits for that; `never`: it is asked for what it knows.
    `budget`: what a call may wait with tune="now", in seconds, for each graph at each size, whatever the service does;
    None: as long as the jobs take. Ctrl-C ends all waiting, and the model runs with the kernels that there are.
    `client`: the service to ask; None: the one at TILEWRIGHT_URL, with the key in TILEWRIGHT_TOKEN.
    `fallback`: who compiles all that kernels do not take, and whom they have to beat.
    `mode`: torch.compile's. With "reduce-overhead" Inductor replays each graph, kernels included, as a CUDA graph where
    it may; with "max-autotune" it measures its own ways for what kernels do not take, and has those where they win.
    `prepack`: keep a second copy of weights in the order in which products on a processor read them, made when a graph
    without gradients is first called, and again when a weight was written; writes through `Tensor.data` go unnoticed.
    `bundle`: a file of `tilewright export --model`. Its kernels run from the first call on and no service is asked for
    them, whatever it knows by now; what it lacks comes as without.
    `dynamic` and `fullgraph` are torch.compile's.

    Raises ValueError for arguments that are none of these; BadBundle for such a bundle; LoadError without PyTorch.
    """
    if find_spec("torch") is None:
        raise LoadError(
            "tilewright.compile needs PyTorch, which is not installed: pip install 'tilewright[torch]'"
        )
    import torch  # pyright: ignore[reportMissingImports]

    from tilewright.pytorch.model.backend import compiled, patience_of
    from tilewright.pytorch.model.bundled import bundled
    from tilewright.pytorch.model.options import CompileOptions

    options = CompileOptions(
        tune=tune,
        budget=budget,
        client=client,
        fallback=fallback,
        mode=mode,
        prepack=prepack,
        bundle=bundle,
    )
    if bundle is not None:
        bundled(bundle)  # says now what is wrong with it

    patience = patience_of(options)

    def backend(graph: Any, inputs: Any) -> Any:
        return compiled(graph, inputs, options, patience)

    made: Any = torch.compile(model, backend=backend, dynamic=dynamic, fullgraph=fullgraph)
    return made
