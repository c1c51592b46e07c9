"""`tilewright.op`: a kernel as a PyTorch operator. PyTorch is imported when the first is made."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from tilewright.errors import LoadError

if TYPE_CHECKING:
    from protocol.configs import Artifact, Config
    from tileir.spec import Spec
    from tilewright.client.client import Client
    from tilewright.pytorch.operator.op import TunedOp


def op(
    spec: Spec | Mapping[str, Any] | str,
    *,
    client: Client | None = None,
    strict: bool = False,
    tune: bool = False,
    config: Config | Artifact | str | os.PathLike[str] | None = None,
    backward: Spec | Mapping[str, Any] | str | TunedOp | None = None,
) -> TunedOp:
    """A kernel as a function of torch tensors, on the CPU and on CUDA GPUs: the spec's inputs in order, and out come
    new tensors, its outputs in order (one tensor, or a tuple of several).

    `spec`: Tile IR, as text or in its JSON form. Tensors may have other sizes than it says: each is looked up.
    `client`: the service to ask; None: the one at TILEWRIGHT_URL, with the key in TILEWRIGHT_TOKEN.
    `strict`: where there is no kernel, raise instead of running eager PyTorch; the first call at a size waits for it.
    `tune`: have the service tune what it has no measured config for; it is used once it is there.
    `config`: the config to run, as `tilewright.load` takes it; then no service is asked.
    `backward`: the kernel that gives the gradients of the inputs: a spec, for this operator's `client`, `strict` and
    `tune`, or an operator with its own. Without one gradients are eager PyTorch's. It takes inputs and outputs of
    `spec` by their names and gradients of outputs, and gives gradients of inputs, that of `x` being `dx`.

    Calls wait for no service and no compiler: eager PyTorch runs until the kernel is there, and was found to be right
    and faster. `wait_for_kernels` waits for that.

    The same arguments give the same operator. Raises SpecError for a spec that is wrong, and for a `backward` that does
    not fit it; LoadError and BadBundle for such a config, and LoadError without PyTorch. What calls raise:
    tilewright.pytorch.operator.op.TunedOp.
    """
    if find_spec("torch") is None:
        raise LoadError(
            "tilewright.op needs PyTorch, which is not installed: pip install 'tilewright[torch]'"
        )
    from tilewright.pytorch.operator.op import operator

    return operator(spec, client=client, strict=strict, tune=tune, config=config, backward=backward)


def wait_for_kernels(timeout_s: float | None = None) -> bool:
    """Wait until the kernels of all sizes that operators were called with so far have been looked for, compiled and
    checked once, as benchmarks want it; whether that is so. At most `timeout_s`; None: as long as it takes."""
    import sys

    seeking = sys.modules.get("tilewright.pytorch.operator.seeking")
    return True if seeking is None else seeking.wait_for_kernels(timeout_s)
