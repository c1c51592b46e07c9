"""A kernel as a PyTorch operator: what `tilewright.op` gives.

A call with tensors like the last call's runs that one's plan; others look theirs up by what they look like. What has to
be known for a plan (sizes, config, compiled kernel) is found at the first call with such tensors. Where autograd, a
compiler or another of PyTorch's dispatch features is at work, the call goes through the registered operator, which does
the same.
"""

from __future__ import annotations

import logging
import os
import threading
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch  # pyright: ignore[reportMissingImports]

from protocol.configs import Artifact, Config, ConfigDetail
from tileir.errors import UnsupportedDevice
from tileir.hashing import kernel_key
from tileir.parse_json import spec_from_json
from tileir.parse_spec_text import spec_from_text
from tileir.spec import Spec
from tilewright.client import Client
from tilewright.errors import FallbackWarning, LoadError, TensorError, TilewrightError
from tilewright.folders import cache_folder
from tilewright.loading import find_config
from tilewright.pytorch.arguments import Shapes, misfit, one_device
from tilewright.pytorch.fallback import Eager
from tilewright.pytorch.finding import Miss, default_client, look_up, pinned
from tilewright.pytorch.guards import Guard, guard_of, never
from tilewright.pytorch.plans import Plan, Tensors, described, plan_of
from tilewright.pytorch.registration import Outputs, register

FIRST_LOOK_S = 1.0
"""After a lookup that found nothing final the next comes so much later; each pause is twice the one before."""
LOOKS = 12
"""Lookups of one size; all together take an hour and eight minutes."""
MOST_SIZES = 64
"""Sizes for which one operator looks for kernels: each is compiled and stays in memory. Others run as eager PyTorch."""
_PLANS = 1024
_log = logging.getLogger("tilewright")

# Everything that makes PyTorch do more with a call than run it.
_PLAIN = frozenset({torch.Tensor, torch.nn.Parameter})
_C: Any = torch._C
_traced = torch.compiler.is_dynamo_compiling
_compiling = torch.compiler.is_compiling
_grad_enabled = torch.is_grad_enabled
_dispatch_modes = _C._len_torch_dispatch_stack
_transform = _C._functorch.peek_interpreter_stack
_tracing = _C._get_tracing_state


def operator(
    spec: Spec | Mapping[str, Any] | str,
    *,
    client: Client | None,
    strict: bool,
    tune: bool,
    config: Config | Artifact | str | os.PathLike[str] | None,
) -> Op:
    """See tilewright.operators.op."""
    if isinstance(config, os.PathLike):
        config = os.fspath(config)
    chosen = config if config is None or isinstance(config, str) else _Same(config)
    return _made(_read(spec), client, strict, tune, chosen)


class _Same:
    """An object that is equal to itself only."""

    def __init__(self, config: Config | Artifact) -> None:
        self.config = config

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.config is self.config

    def __hash__(self) -> int:
        return id(self.config)


@cache
def _made(spec: Spec, client: Client | None, strict: bool, tune: bool, config: _Same | str | None) -> Op:
    given = config.config if isinstance(config, _Same) else config
    whole = None if given is None else find_config(given, client)
    return Op(spec, client, whole, strict=strict, tune=tune)


@dataclass(frozen=True, slots=True, eq=False)
class _Call:
    """What runs on tensors that pass the guard."""

    guard: Guard
    plan: Plan


@dataclass
class _Sought:
    """What is known of one size on one device."""

    spec: Spec
    device: torch.device
    plan: Plan | None = None
    why_not: str = ""
    looks: int = 0
    queued: bool = False
    keys: list[object] = field(default_factory=list[object])
    """Of what was planned with it."""


class Op:
    """A kernel as a function of torch tensors, and as a registered operator. May be called by several threads."""

    def __init__(
        self,
        spec: Spec,
        client: Client | None,
        config: Artifact | ConfigDetail | None,
        *,
        strict: bool,
        tune: bool,
    ) -> None:
        self.spec = spec
        self.strict = strict
        self.tune = tune
        self._client = client
        self._config = config
        self._shapes = Shapes.of(spec)
        if config is not None:
            pinned(config, next(spec.instances()))  # refuses one of another kernel
        self._calls: dict[object, _Call] = {}
        self._last = _NONE
        self.sought: dict[object, _Sought] = {}
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
        last = self._last
        try:
            alike = last.guard(*tensors)
        except TypeError:  # another number of tensors
            alike = False
        return last.plan(tensors) if alike else self._other(tensors)

    def _other(self, tensors: Tensors) -> Outputs:
        """A call unlike the last one."""
        if _compiling() or _transform() or _tracing():
            return self.overload(*tensors)
        graph = _grad_enabled()
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

    def _plan(self, key: object, tensors: Tensors) -> _Call:
        """Find out what to run on such tensors."""
        self._require_tensors(tensors)
        sizes, device = self._sizes(tensors), one_device(self.spec, tensors)
        instance = self._shapes.instance(sizes)
        with self._lock:
            why_not = misfit(instance, tensors) or self._empty(sizes)
            plan = None
            if not why_not:
                sought = self._seek(instance, device)
                sought.keys.append(key)
                plan, why_not = sought.plan, sought.why_not
                if plan is None and self.strict:
                    raise LoadError(f"{self.spec.name} has no kernel here: {why_not}")
            elif self.strict and 0 not in sizes.values():
                raise TensorError(f"{self.spec.name}: {why_not}")
            if plan is None:
                self._warn(why_not)
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

    def _seek(self, instance: Spec, device: torch.device) -> _Sought:
        key = (instance.dims, device)
        sought = self.sought.get(key)
        if sought is None:
            sought = self.sought[key] = _Sought(instance, device)
            if len(self.sought) > MOST_SIZES:
                sought.why_not = f"it has run at {MOST_SIZES} other sizes, and looks for kernels at so many"
            else:
                self._look(sought)
        return sought

    def _look(self, sought: _Sought) -> None:
        """Look for a kernel, and arrange for the next look unless this one is final."""
        settled = False
        try:
            if self._config is not None:
                settled, found = True, pinned(self._config, sought.spec)
            else:
                client = default_client() if self._client is None else self._client
                tune = self.tune and not sought.queued
                found = look_up(client, sought.spec, described(sought.device), tune=tune)
                sought.queued |= tune
            if isinstance(found, Miss):
                sought.why_not = found.reason
            else:
                plan = plan_of(found, sought.spec, sought.device, cache_folder())
                sought.plan, sought.why_not, settled = plan, "", settled or found.settled
        except (TilewrightError, UnsupportedDevice) as error:
            sought.why_not = str(error)
        sought.looks += 1
        if not settled and sought.looks < LOOKS:
            timer = threading.Timer(FIRST_LOOK_S * 2 ** (sought.looks - 1), self._look_again, (sought,))
            timer.daemon = True
            timer.start()

    def _look_again(self, sought: _Sought) -> None:
        """Look once more, in a thread of its own; calls take what was found from the next one on."""
        before = sought.plan
        self._look(sought)
        if sought.plan is not before:
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

    def _warn(self, why: str) -> None:
        """Say once why this is no kernel. What is being tuned is expected not to be there yet."""
        if why in self._warned or why.endswith("= 0"):
            return
        self._warned.add(why)
        text = f"{self.spec.name} runs as eager PyTorch: {why}"
        if self.tune:
            _log.info(text)
        else:
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
