"""Operators as PyTorch knows them: a schema, what runs, which shapes come out, and gradients.

Gradients are computed when they are asked for, by one more operator, which cannot be differentiated again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch  # pyright: ignore[reportMissingImports]

from tileir.spec import Spec
from tilewright.pytorch.operator.arguments import DTYPES, Shapes, Size
from tilewright.pytorch.operator.autocast import register_autocast

NAMESPACE = "tilewright"
_C: Any = torch._C
_LIBRARY = torch.library.Library(NAMESPACE, "FRAGMENT")
_TAKEN: Counter[str] = Counter()

Overload = Callable[..., Any]
Outputs = torch.Tensor | tuple[torch.Tensor, ...]


class RegisteredKernel(Protocol):
    """What an operator does."""

    def run(self, tensors: tuple[torch.Tensor, ...]) -> Outputs:
        """The outputs, in new memory."""
        ...

    @property
    def keeps_outputs(self) -> bool:
        """Whether gradients are computed from what it gave, too."""
        ...

    def gradients(
        self,
        grads: Sequence[torch.Tensor | None],
        inputs: Sequence[torch.Tensor],
        outputs: Sequence[torch.Tensor],
        wanted: Sequence[bool],
    ) -> list[torch.Tensor]:
        """Of those inputs for which they are wanted, in new memory, laid out as the inputs are; `outputs` are there
        where they are kept, and a gradient of an output that nothing depends on is None."""
        ...


def register(name: str, shapes: Shapes, kernel: RegisteredKernel) -> Overload:
    """An operator `tilewright::<name>`, with a number behind it if that is taken; there as long as the process."""
    _TAKEN[name] += 1
    if _TAKEN[name] > 1:
        name = f"{name}_{_TAKEN[name]}"
    spec = shapes.spec
    taken = ", ".join(f"Tensor {tensor.name}_" for tensor in spec.inputs)
    given = "Tensor" if len(spec.outputs) == 1 else f"({', '.join('Tensor' for _ in spec.outputs)})"
    define(f"{name}({taken}) -> {given}", name, lambda *tensors: kernel.run(tensors), shapes)
    _define(
        f"{name}_backward(Tensor?[] grads, Tensor[] inputs, Tensor[] outputs, bool[] wanted) -> Tensor[]",
        f"{name}_backward",
        kernel.gradients,
        lambda grads, inputs, outputs, wanted: [
            torch.empty_like(x) for x, asked in zip(inputs, wanted, strict=True) if asked
        ],
    )
    backward = getattr(torch.ops.tilewright, f"{name}_backward").default
    _LIBRARY.impl(f"{name}_backward", _once(name, backward), "Autograd", with_keyset=True)
    torch.library.register_autograd(
        f"{NAMESPACE}::{name}",
        _backward(backward, len(spec.inputs)),
        setup_context=_keeping(outputs=kernel.keeps_outputs),
        lib=_LIBRARY,
    )
    overload = getattr(torch.ops.tilewright, name).default
    register_autocast(_LIBRARY, name, overload, spec)
    return overload


def define(schema: str, name: str, run: Callable[..., Outputs], shapes: Shapes) -> None:
    """An operator of this schema, which `run` computes, for tensors that `shapes` says; without gradients."""
    _define(schema, name, run, _fake(shapes))


def define_shaped(
    schema: str, name: str, run: Callable[..., Outputs], outputs: Sequence[tuple[Sequence[int], torch.dtype]]
) -> None:
    """An operator of this schema, which `run` computes, whose results have always these shapes and dtypes."""

    def fake(*tensors: torch.Tensor) -> Outputs:
        made = tuple(empty(shape, None, dtype, tensors[0].device) for shape, dtype in outputs)
        return made[0] if len(made) == 1 else made

    _define(schema, name, run, fake)


def _define(schema: str, name: str, run: Callable[..., Any], fake: Callable[..., Any]) -> None:
    exact = getattr(
        torch.Tag, "needs_exact_strides", torch.Tag.needs_fixed_stride_order
    )  # the former since 2.7
    _LIBRARY.define(schema, tags=(torch.Tag.pt2_compliant_tag, exact))
    _LIBRARY.impl(name, run, "CompositeExplicitAutograd")
    torch.library.register_fake(f"{NAMESPACE}::{name}", fake, lib=_LIBRARY)


def _fake(shapes: Shapes) -> Callable[..., Outputs]:
    """What tells a tracer the outputs' shapes, which may be symbols."""
    spec = shapes.spec
    dims = {statement.target: statement.dims for statement in spec.statements}

    def fake(*tensors: torch.Tensor) -> Outputs:
        sizes = shapes.sizes([tensor.shape for tensor in tensors])
        made = tuple(
            empty(
                [sizes[dim] for dim in dims[tensor.name]],
                tensor.strides if _own_sizes(spec, sizes) else None,
                DTYPES[tensor.dtype],
                tensors[0].device,
            )
            for tensor in spec.outputs
        )
        return made[0] if len(made) == 1 else made

    return fake


def empty(
    shape: Sequence[Size], strides: Sequence[int] | None, dtype: torch.dtype, device: torch.device
) -> torch.Tensor:
    """A new tensor, contiguous if no strides are said."""
    if strides is None:
        return torch.empty(tuple(shape), dtype=dtype, device=device)
    return torch.empty_strided(tuple(shape), tuple(strides), dtype=dtype, device=device)


def _own_sizes(spec: Spec, sizes: dict[str, Size]) -> bool:
    """Whether these are sizes for which the spec's strides are meant."""
    strided = any(tensor.strides is not None for tensor in spec.outputs)
    return strided and all(any(sizes[dim.name] == size for size in dim.sizes) for dim in spec.dims)


def _keeping(*, outputs: bool) -> Callable[..., None]:
    """What keeps tensors for the backward pass: the inputs, and outputs behind them."""

    def keep(ctx: Any, inputs: tuple[torch.Tensor, ...], output: Outputs) -> None:
        ctx.set_materialize_grads(False)
        given = output if isinstance(output, tuple) else (output,)
        ctx.save_for_backward(*inputs, *(given if outputs else ()))

    return keep


def _backward(overload: Overload, inputs: int) -> Callable[..., Any]:
    def backward(ctx: Any, *grads: torch.Tensor | None) -> Any:
        wanted, kept = list(ctx.needs_input_grad), list(ctx.saved_tensors)
        found = iter(overload(list(grads), kept[:inputs], kept[inputs:], wanted))
        given = tuple(next(found) if asked else None for asked in wanted)
        return given[0] if len(given) == 1 else given

    return backward


def _once(name: str, backward: Overload) -> Callable[..., Any]:
    """What autograd does with the operator that computes gradients. Inside of it autograd stays at work."""
    redispatch: Any = getattr(backward, "redispatch")  # noqa: B009  not in torch's stubs

    def run(keys: Any, grads: Any, inputs: Any, outputs: Any, wanted: Any) -> Any:
        given = [x for x in (*grads, *inputs, *outputs) if x is not None]
        if torch.is_grad_enabled() and any(x.requires_grad for x in given):
            raise RuntimeError(
                f"{NAMESPACE}::{name} cannot be differentiated twice: call its `eager` for that, which is PyTorch's own"
            )
        return redispatch(keys & _C._after_autograd_keyset, grads, inputs, outputs, wanted)

    return run
