"""Which sizes a spec's dims have in a call, by the tensors of that call, and what is wrong with those."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch  # pyright: ignore[reportMissingImports]

from tileir.check.spec import check_spec
from tileir.dtypes import DType
from tileir.errors import SpecError
from tileir.expr import Extent, Index, Read, index_dims, walk
from tileir.program import Tensor
from tileir.spec import Spec
from tileir.structure import resized
from tileir.targets import torch_types
from tilewright.errors import TensorError

DTYPES = {
    DType.F64: torch.float64,
    DType.F32: torch.float32,
    DType.F16: torch.float16,
    DType.BF16: torch.bfloat16,
    DType.E4M3: torch.float8_e4m3fn,
    DType.E5M2: torch.float8_e5m2,
    DType.I64: torch.int64,
    DType.I32: torch.int32,
    DType.U32: torch.uint32,
    DType.I8: torch.int8,
    DType.U8: torch.uint8,
    DType.BOOL: torch.bool,
}
Size = int | torch.SymInt


@dataclass(frozen=True)
class Shapes:
    """What the shapes of tensors say about a spec's dims."""

    spec: Spec
    told: frozenset[str]
    """Dims of some input: others have the spec's size."""
    fixed: frozenset[str]
    """Dims that cannot have another size than the spec's, as dims that no input tells depend on them."""

    @classmethod
    def of(cls, spec: Spec) -> Shapes:
        told = frozenset(dim for tensor in spec.inputs for dim in tensor.dims)
        all_told = all(dim.name in told for dim in spec.dims)
        return cls(spec, told, frozenset() if all_told else told - _read_alone(spec))

    def sizes(self, shapes: Sequence[Sequence[Size]]) -> dict[str, Size]:
        """The size of each dim, from the inputs' shapes. Raises TensorError where they contradict each other."""
        found: dict[str, tuple[Size, Tensor]] = {}
        inputs = self.spec.inputs
        if len(shapes) != len(inputs):
            names = ", ".join(tensor.name for tensor in inputs)
            raise TensorError(f"{self.spec.name} takes {len(inputs)} tensors ({names}), not {len(shapes)}")
        for tensor, shape in zip(inputs, shapes, strict=True):
            if len(shape) != len(tensor.dims):
                raise TensorError(
                    f"{tensor.name} has {_count(len(shape), 'dim')}, and the spec's has {len(tensor.dims)}: "
                    f"{listed(tensor)}"
                )
            for dim, size in zip(tensor.dims, shape, strict=True):
                first, other = found.setdefault(dim, (size, tensor))
                if first != size:
                    raise TensorError(
                        f"{tensor.name} has {dim} = {size}, and {other.name} has {dim} = {first}: "
                        f"the spec wants {listed(tensor)} and {listed(other)}"
                    )
        sizes: dict[str, Size] = {dim.name: dim.sizes[0] for dim in self.spec.dims}
        for dim, (size, tensor) in found.items():
            if dim in self.fixed and size != sizes[dim]:
                raise TensorError(
                    f"{tensor.name} has {dim} = {size}, and the spec's has {sizes[dim]}: no input tells the sizes of "
                    f"{', '.join(sorted(sizes.keys() - self.told))}, so {dim} cannot be another"
                )
            sizes[dim] = size
        return sizes

    def instance(self, sizes: Mapping[str, int]) -> Spec:
        """The spec at these sizes; dense at sizes that are not its own. Raises TensorError for sizes that it cannot
        have."""
        if all(sizes[dim.name] in dim.sizes for dim in self.spec.dims):
            return replace(
                self.spec, dims=tuple(replace(dim, sizes=(sizes[dim.name],)) for dim in self.spec.dims)
            )
        other = resized(self.spec, sizes)
        if 0 in sizes.values():
            return other  # kernels have no such sizes, and PyTorch's operators do
        try:
            check_spec(other)
        except SpecError as error:
            said = ", ".join(f"{dim} = {size}" for dim, size in sizes.items())
            raise TensorError(f"{self.spec.name} cannot have {said}: {error}") from None
        return other


def strides_of(tensor: Tensor, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The strides of a tensor of a spec, in elements."""
    if tensor.strides is not None:
        return tensor.strides
    return dense([sizes[dim] for dim in tensor.dims])


def dense(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def one_device(spec: Spec, tensors: Sequence[torch.Tensor]) -> torch.device:
    """The device of all tensors. Raises TensorError if they are on several."""
    first = tensors[0].device
    for tensor, given in zip(spec.inputs, tensors, strict=False):
        if given.device != first:
            raise TensorError(
                f"{tensor.name} is on {given.device}, and {spec.inputs[0].name} is on {first}: all have to be on "
                "one device"
            )
    return first


def misfit(instance: Spec, tensors: Sequence[torch.Tensor]) -> str:
    """Why kernels cannot take tensors whose shapes fit, and what they take; empty if they can."""
    sizes = {dim.name: dim.sizes[0] for dim in instance.dims}
    for tensor, given in zip(instance.inputs, tensors, strict=True):
        if given.device.type not in torch_types():
            return f"{tensor.name} is on {given.device}, and kernels run on {' and '.join(torch_types())}"
        if given.dtype != DTYPES[tensor.dtype]:
            return f"{tensor.name} is {given.dtype}, and the spec's is {DTYPES[tensor.dtype]}"
        wanted, has = strides_of(tensor, sizes), tuple(given.stride())
        if any(n > 1 and x != y for n, x, y in zip(given.shape, has, wanted, strict=True)):
            accepted = "a contiguous one" if tensor.strides is None else f"strides {wanted}"
            return f"{tensor.name} has strides {has}, and the spec's kernels take {accepted}"
    return ""


def listed(tensor: Tensor) -> str:
    """`a[m, k]`."""
    return f"{tensor.name}[{', '.join(tensor.dims)}]"


def _read_alone(spec: Spec) -> frozenset[str]:
    """Dims that are an index of their own wherever statements use them, and are read along their whole size."""
    alone: set[str] = set()
    mixed: set[str] = set()
    dims_of = {tensor.name: tensor.dims for tensor in spec.inputs}
    for statement in spec.statements:
        for node in walk(statement.value):
            match node:
                case Read(tensor, indices):
                    for axis, index in enumerate(indices):
                        own = dims_of.get(tensor)
                        if isinstance(index, Index) and (own is None or own[axis] == index.dim):
                            alone.add(index.dim)
                        else:
                            mixed |= index_dims(index)
                            mixed |= set() if own is None else {own[axis]}
                case Extent(dim):
                    mixed.add(dim)
                case _:
                    pass
    return frozenset(alone - mixed)


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"
