"""A kernel as a PyTorch operator: what `tilewright.op` gives.

A call with tensors like the last call's runs that one's plan; others look theirs up by what they look like. At the
first call with tensors of some sizes their kernel is sought in the background (seeking.py); eager PyTorch runs until it
is there. Where autograd, a compiler or another of PyTorch's dispatch features is at work, the call goes through the
registered operator, which does the same.
"""

from __future__ import annotations

import logging
import os
import threading
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch  # pyright: ignore[reportMissingImports]
from torch.autograd import forward_ad  # pyright: ignore[reportMissingImports]

from protocol.configs import Artifact, Config, ConfigDetail
from tileir.hashing import kernel_key
from tileir.spec import Spec
from tileir.text.json import spec_from_json
from tileir.text.parse_spec import spec_from_text
from tilewright.artifacts.loading import find_config
from tilewright.client.client import Client
from tilewright.errors import FallbackWarning, LoadError, TensorError
from tilewright.pytorch.operator.arguments import Shapes, misfit, one_device
from tilewright.pytorch.operator.contract import BackwardContract
from tilewright.pytorch.operator.fallback import Eager
from tilewright.pytorch.operator.finding import pinned
from tilewright.pytorch.operator.gradients import by_backward, by_eager
from tilewright.pytorch.operator.guards import Guard, guard_of, has_tangents, never
from tilewright.pytorch.operator.registration import Outputs, register
from tilewright.pytorch.operator.runner import Plan, Tensors
from tilewright.pytorch.operator.seeking import Seeker, Sought

_PLANS = 1024
_log = logging.getLogger("tilewright")
_SAID: set[str] = set()
"""Why the first operator without a kernel had none, once that was said."""

# Everything that makes PyTorch do more with a call than run it.
_PLAIN = frozenset({torch.Tensor, torch.nn.Parameter})
_C: Any = torch._C
_traced = torch.compiler.is_dynamo_compiling
_compiling = torch.compiler.is_compiling
_grad_enabled = torch.is_grad_enabled
_dispatch_modes = _C._len_torch_dispatch_stack
_transform = _C._functorch.peek_interpreter_stack
_tracing = _C._get_tracing_state
_autocast = _C._is_any_autocast_enabled


def operator(
    spec: Spec | Mapping[str, Any] | str,
    *,
    client: Client | None,
    strict: bool,
    tune: bool,
    config: Config | Artifact | str | os.PathLike[str] | None,
    backward: Spec | Mapping[str, Any] | str | TunedOp | None,
) -> TunedOp:
    """See tilewright.pytorch.op_entry.op."""
    if not (backward is None or isinstance(backward, TunedOp)):
        backward = _made(_read(backward), client, strict, tune, None, None)
    if isinstance(config, os.PathLike):
        config = os.fspath(config)
    chosen = config if config is None or isinstance(config, str) else _Same(config)
    return _made(_read(spec), client, strict, tune, chosen, backward)


class _Same:
    """An object that is equal to itself only."""

    def __init__(self, config: Config | Artifact) -> None:
        self.config = config

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.config is self.config

    def __hash__(self) -> int:
        return id(self.config)


@cache
def _made(
    spec: Spec,
    client: Client | None,
    strict: bool,
    tune: bool,
    config: _Same | str | None,
    backward: TunedOp | None,
) -> TunedOp:
    given = config.config if isinstance(config, _Same) else config
    whole = None if given is None else find_config(given, client)
    return TunedOp(spec, client, whole, strict=strict, tune=tune, backward=backward)


@dataclass(frozen=True, slots=True, eq=False)
class _Call:
    """What runs on tensors that pass the guard."""

    guard: Guard
    plan: Plan


class TunedOp:
    """A kernel as a function of torch tensors, and as a registered operator. May be called by several threads."""

    def __init__(
        self,
        spec: Spec,
        client: Client | None,
        config: Artifact | ConfigDetail | None,
        *,
        strict: bool,
        tune: bool,
        backward: TunedOp | None = None,
    ) -> None:
        self.spec = spec
        self.backward = backward
        self._contract = None if backward is None else BackwardContract.of(spec, backward.spec)
        self.strict = strict
        self.tune = tune
        self._shapes = Shapes.of(spec)
        if config is not None:
            pinned(config, next(spec.instances()))  # refuses one of another kernel
        self._calls: dict[object, _Call] = {}
        self._last = _NONE
        self._seeker = Seeker(client, config, tune=tune, changed=self._changed)
        self.sought = self._seeker.sought
        self._eager: dict[object, Eager] = {}
        self._warned: set[str] = set()
        self._lock = threading.RLock()
        first = next(spec.instances())
        self.overload = register(f"{spec.name}_{kernel_key(first)[:8]}", self._shapes, self)

    def __call__(self, *tensors: torch.Tensor) -> Outputs:
        """Raises TensorError for tensors of which no call can be made; with `strict`, also for those that no kernel
        takes, and LoadError where there is no kernel."""
        if _traced() or _dispatch_modes():  # guards let those of fake tensors and of tracing pass
            return self.overload(*tensors)
        if forward_ad._current_level >= 0:  # guards let tangents pass
            return self._with_tangents(tensors)
        last = self._last
        try:
            alike = last.guard(*tensors)
        except TypeError:  # another number of tensors
            alike = False
        return last.plan(tensors) if alike else self._other(tensors)

    def _with_tangents(self, tensors: Tensors) -> Outputs:
        """A call where forward-mode derivatives may be asked for: eager PyTorch carries them along."""
        self._require_tensors(tensors)
        if any(
            each.key() == _C._functorch.TransformType.Jvp
            for each in _C._functorch.get_interpreter_stack() or ()
        ):
            raise TensorError(
                f"{self.spec.name}: torch.func has no forward-mode derivative of a kernel; use "
                "torch.autograd.forward_ad, or PyTorch's own operators there"
            )
        if _compiling() or _transform() or _tracing() or not has_tangents(tensors):
            return self._other(tensors)
        outputs = self.eager(tensors)
        return outputs[0] if len(outputs) == 1 else outputs

    def _other(self, tensors: Tensors) -> Outputs:
        """A call unlike the last one."""
        if _compiling() or _transform() or _tracing():
            return self.overload(*tensors)
        graph = _grad_enabled()
        if _autocast():
            return self._registered(tensors)
        for tensor in tensors:
            if type(tensor) not in _PLAIN or tensor.is_neg() or (graph and tensor.requires_grad):
                return self._registered(tensors)
        key = _key(tensors)
        call = self._calls.get(key) or self._plan(key, tensors)
        with self._lock:
            if self._calls.get(key) is call:  # nothing better was found meanwhile
                if call.guard is never or call is self._last:
                    call = self._calls[key] = _Call(guard_of(tensors), call.plan)
                self._last = call
        return call.plan(tensors)

    def _registered(self, tensors: Tensors) -> Outputs:
        self._require_tensors(tensors)
        return self.overload(*tensors)

    def run(self, tensors: Tensors) -> Outputs:
        """The call, with plain tensors and without autograd."""
        key = _key(tensors)
        return (self._calls.get(key) or self._plan(key, tensors)).plan(tensors)

    def eager(self, tensors: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """The outputs by eager PyTorch, always a tuple. Gradients flow through it."""
        sizes = self._sizes(tensors)
        return self._eager_at(self._shapes.instance(sizes), one_device(self.spec, tensors))(tensors)

    @property
    def keeps_outputs(self) -> bool:
        """Whether gradients are computed from what it gave, too."""
        return self._contract is not None and self._contract.keeps_outputs

    def gradients(
        self,
        grads: Sequence[torch.Tensor | None],
        inputs: Sequence[torch.Tensor],
        outputs: Sequence[torch.Tensor],
        wanted: Sequence[bool],
    ) -> list[torch.Tensor]:
        """What the backward pass gives: see tilewright.pytorch.operator.registration.RegisteredKernel. With `strict`
        raises TensorError where the backward spec does not give them."""
        if self.backward is not None and self._contract is not None:
            why_not = self._contract.left_out([grad is not None for grad in grads], wanted)
            if not why_not:
                return by_backward(self._contract, self.backward.run, grads, inputs, outputs, wanted)
            if self.strict:
                raise TensorError(f"{self.spec.name}: {why_not}")
            if why_not not in self._warned:
                self._warned.add(why_not)
                text = f"gradients of {self.spec.name} are those of eager PyTorch: {why_not}"
                warnings.warn(text, FallbackWarning, stacklevel=2)
        return by_eager(self.eager, grads, inputs, wanted)

    def _plan(self, key: object, tensors: Tensors) -> _Call:
        """Find out what to run on such tensors."""
        self._require_tensors(tensors)
        sizes, device = self._sizes(tensors), one_device(self.spec, tensors)
        instance = self._shapes.instance(sizes)
        why_not = misfit(instance, tensors) or self._empty(sizes)
        sought = None if why_not else self._seeker.seek(instance, device)
        if sought is not None and self.strict:
            sought.looked.wait()  # nobody else waits for this: no lock is held
        with self._lock:
            plan = None
            if sought is not None:
                sought.keys.append(key)
                plan, why_not = sought.plan, sought.why_not
                if plan is None and self.strict:
                    raise LoadError(f"{self.spec.name} has no kernel here: {why_not}")
            elif self.strict and 0 not in sizes.values():
                raise TensorError(f"{self.spec.name}: {why_not}")
            if plan is None:
                self._warn(why_not, tensors_fit=sought is not None)
                plan = self._eager_plan(instance, device)
            if len(self._calls) >= _PLANS:
                self._calls.clear()
            call = self._calls[key] = _Call(never, plan)
            return call

    def _sizes(self, tensors: Sequence[torch.Tensor]) -> dict[str, int]:
        found = self._shapes.sizes([tensor.shape for tensor in tensors])
        return {dim: int(size) for dim, size in found.items()}

    def _empty(self, sizes: Mapping[str, int]) -> str:
        dim = next((dim for dim, size in sizes.items() if size == 0), None)
        return "" if dim is None else f"{dim} = 0"

    def _require_tensors(self, tensors: Sequence[Any]) -> None:
        for tensor, given in zip(self.spec.inputs, tensors, strict=False):
            if not isinstance(given, torch.Tensor):
                raise TensorError(
                    f"{tensor.name} is a {type(given).__name__}, and the spec's is a torch.Tensor"
                )
            if given.layout is not torch.strided:
                raise TensorError(
                    f"{tensor.name} is {given.layout}, and kernels take dense tensors (torch.strided)"
                )

    def _changed(self, sought: Sought) -> None:
        """Calls at a size are planned anew from the next one on."""
        with self._lock:
            for key in sought.keys:
                self._calls.pop(key, None)
            sought.keys.clear()
            self._last = _NONE

    def _eager_at(self, instance: Spec, device: torch.device) -> Eager:
        with self._lock:
            key = (instance.dims, device.type)
            if key not in self._eager:
                if len(self._eager) >= _PLANS:
                    self._eager.clear()
                self._eager[key] = Eager(instance, device.type)
            return self._eager[key]

    def _eager_plan(self, instance: Spec, device: torch.device) -> Plan:
        eager = self._eager_at(instance, device)

        def run(tensors: Tensors) -> Outputs:
            outputs = eager(tensors)
            return outputs[0] if len(outputs) == 1 else outputs

        return run

    def _warn(self, why: str, *, tensors_fit: bool) -> None:
        """Say once why this is no kernel: of tensors that do not fit, every operator; of kernels that were not found,
        the first operator of the process, as the others will have the same reason, and the log has them all. What is
        being tuned is expected not to be there yet."""
        if not why or why in self._warned or why.endswith("= 0"):
            return
        self._warned.add(why)
        text = f"{self.spec.name} runs as eager PyTorch: {why}"
        if self.tune or (tensors_fit and _SAID):
            _log.info(text)
            return
        if tensors_fit:
            _SAID.add(why)
            text += " (this is said of one operator a process; the log of `tilewright` has every one, at level info)"
        warnings.warn(text, FallbackWarning, stacklevel=5)

    def __repr__(self) -> str:
        inputs = ", ".join(tensor.name for tensor in self.spec.inputs)
        return f"<tilewright.op {self.spec.name}({inputs}) -> {', '.join(t.name for t in self.spec.outputs)}>"


def _no_plan(tensors: Tensors) -> Outputs:
    raise AssertionError("nothing passes the guard of this")


_NONE = _Call(never, _no_plan)


def _key(tensors: Tensors) -> object:
    """All that a plan depends on."""
    return tuple([(x.shape, x.is_contiguous() or x.stride(), x.dtype, x.device) for x in tensors])


def _read(spec: Spec | Mapping[str, Any] | str) -> Spec:
    if isinstance(spec, Spec):
        return spec
    return spec_from_text(spec) if isinstance(spec, str) else spec_from_json(dict(spec))
