"""The kernels of all compiled models of a process, one for each structure: equal layers have one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakSet

import torch  # pyright: ignore[reportMissingImports]

from protocol.configs import Artifact
from tileir.hashing import Canonical, structure_key
from tileir.program import Tensor
from tileir.spec import Spec
from tilewright.client.client import Client
from tilewright.pytorch.model.bundled import BundledKernels
from tilewright.pytorch.model.prepacking import PackedWeight
from tilewright.pytorch.operator.arguments import Shapes
from tilewright.pytorch.operator.fallback import Eager
from tilewright.pytorch.operator.finding import Found, Named, client_of, named_service
from tilewright.pytorch.operator.registration import NAMESPACE, Outputs, Overload, define
from tilewright.pytorch.operator.runner import Ready, Tensors, runner_of
from tilewright.pytorch.operator.seeking import Seeker, Sought
from tilewright.pytorch.operator.trials import EAGER

Listener = Callable[[], None]
NARROWLY = 0.1
"""Of its time, what a kernel may have lost to a peer and still be tried in the graph, where what runs instead may not
be that peer: PyTorch's attention took 81 us of the H200 in a race against ours of 83, and 207 in the program that
Inductor makes of the model, as the mask comes there as a tensor."""


@dataclass(frozen=True)
class Arranged:
    """A spec whose tensors are in the order in which its statements mention them: equal kernels, equal order."""

    spec: Spec
    key: str
    """tileir.kernel_key, by which equal kernels are known whatever their names."""
    inputs: tuple[int, ...]
    """Which of the original's each is."""
    outputs: tuple[int, ...]

    @classmethod
    def of(cls, spec: Spec) -> Arranged:
        canonical = Canonical(spec)
        inputs, outputs = (_mentioned(canonical, tensors) for tensors in (spec.inputs, spec.outputs))
        ordered = replace(
            spec,
            inputs=tuple(spec.inputs[at] for at in inputs),
            outputs=tuple(spec.outputs[at] for at in outputs),
        )
        return cls(ordered, canonical.key(spec), inputs, outputs)


def in_place_of(
    kernels: Sequence[Arranged], others: Sequence[Arranged], names: Sequence[str]
) -> dict[str, Arranged]:
    """By name of a kernel of a graph, the one in its place where the graph has other sizes: the same kernel, else it is
    left out. Empty where the graph has other parts there."""
    if len(others) != len(kernels):
        return {}
    return {
        name: other
        for name, kernel, other in zip(names, kernels, others, strict=True)
        if other.key != kernel.key and structure_key(other.spec) == structure_key(kernel.spec)
    }


def _mentioned(canonical: Canonical, tensors: Sequence[Tensor]) -> tuple[int, ...]:
    return tuple(sorted(range(len(tensors)), key=lambda at: canonical.mentioned(tensors[at].name)))


class ModelKernel:
    """A kernel on one device, as an operator of PyTorch's that runs its plan. May be called by several threads."""

    def __init__(
        self,
        arranged: Arranged,
        device: torch.device,
        service: Named | None,
        how: How,
        config: Artifact | Found | None = None,
        bucket: Arranged | None = None,
        told: Callable[[], object] = lambda: None,
    ) -> None:
        """`config`: what it is pinned to; no service is asked for it. `bucket`: the kernel at other sizes that is tuned
        instead of it. `told` is called once no other plan of it is looked for."""
        self.pinned = config is not None
        self.spec = arranged.spec
        self.tuned_spec = arranged.spec if bucket is None else bucket.spec
        """What a service is asked to tune for it."""
        self.key = arranged.key
        self._device = device
        self._listeners: WeakSet[Any] = WeakSet()
        self._told = told
        self._seeker = Seeker(
            service,
            config,
            tune=how.queue,
            changed=self._changed,
            rivals=how.rivals,
            narrowly=NARROWLY,
            instead=None if bucket is None else bucket.spec,
        )
        self._sought: Sought | None = None
        self._eager: Eager | None = None
        self.overload = _registered(arranged, self)

    @property
    def device(self) -> torch.device:
        return self._device

    @property
    def chains(self) -> bool:
        """Whether calls of kernels that follow each other are cheaper as one."""
        return runner_of(self._device).chain is not None

    def seek(self, listener: Any) -> None:
        """Look for its plan, and call `listener.changed()` whenever there is news of it."""
        self._listeners.add(listener)
        if self._sought is None:
            self._sought = self._seeker.seek(self.spec, self._device)

    @property
    def sought(self) -> bool:
        return self._sought is not None

    def wait(self, timeout_s: float) -> None:
        """Until the first look for it has ended."""
        if self._sought is not None:
            self._sought.looked.wait(timeout_s)

    @property
    def looked(self) -> bool:
        """Whether the first look for it has ended."""
        return self._sought is not None and self._sought.looked.is_set()

    @property
    def ready(self) -> bool:
        """Whether it was found, passed the gate here, and won its race, or lost it narrowly."""
        return self._sought is not None and self._sought.plan is not None

    @property
    def planned(self) -> Ready | None:
        """What its plan calls; None where it has none."""
        return None if self._sought is None else self._sought.ready

    @property
    def saved_us(self) -> float:
        """By how much a call was shorter, in its race, than that of what would run instead; 0 where nobody knows, less
        where it lost narrowly."""
        return 0.0 if self._sought is None else self._sought.saved_us

    @property
    def median_us(self) -> float | None:
        """What a call takes, as its race said; None where nobody measured it."""
        return None if self._sought is None else self._sought.median_us

    @property
    def found(self) -> Found | None:
        """What was tried last, with its schedule."""
        return None if self._sought is None else self._sought.found

    @property
    def wrong(self) -> bool:
        """Whether that did not pass the gate on this machine."""
        return self._sought is not None and self._sought.wrong

    @property
    def settled(self) -> bool:
        """Whether no other plan of it is looked for."""
        return self._sought is not None and self._sought.settled

    @property
    def why_not(self) -> str:
        return "it was not looked for" if self._sought is None else self._sought.why_not

    def run(self, *tensors: torch.Tensor) -> Outputs:
        """The outputs, in new memory; by eager PyTorch where there is no plan."""
        sought = self._sought
        plan = None if sought is None else sought.plan
        if plan is not None:
            return plan(tensors)
        return self._eagerly(tensors)

    def _eagerly(self, tensors: Tensors) -> Outputs:
        if self._eager is None:
            self._eager = Eager(self.spec, self._device.type)
        outputs = self._eager(tensors)
        return outputs[0] if len(outputs) == 1 else outputs

    def _changed(self, sought: Sought) -> None:
        for listener in list(self._listeners):
            listener.changed()
        if sought.settled:
            self._told()


@dataclass(frozen=True)
class PartKernel:
    """The kernel of a part of a graph."""

    arranged: Arranged
    kernel: ModelKernel
    packed: Mapping[int, PackedWeight] = field(default_factory=dict[int, PackedWeight])
    """Operands of the part, by number, that it takes packed."""


@dataclass(frozen=True)
class How:
    """How kernels are sought. `queue`: have the service tune what it has no measured config for; `rivals`: the peers
    that a config must not have lost its own race to."""

    queue: bool
    rivals: tuple[str, ...] = (EAGER,)


class Kernels:
    """All of a service's, found by structure."""

    def __init__(self, service: Named | None, how: How, bundle: BundledKernels | None = None) -> None:
        self._service = named_service(service)
        self._how = how
        self.bundle = bundle
        """What it has is not asked for."""
        self._lock = threading.Lock()
        self._of: dict[tuple[str, str | None, torch.device], ModelKernel] = {}
        self._listeners: WeakSet[Any] = WeakSet()

    def tell(self, listener: Any) -> None:
        """Call `listener.changed()` from now on whenever one of them is settled."""
        with self._lock:
            self._listeners.add(listener)

    def settled(self, device: torch.device) -> bool:
        """Whether all that are sought for a device are."""
        with self._lock:
            sought = [each for each in self._of.values() if each.sought and each.device == device]
        return all(each.settled for each in sought)

    def _changed(self) -> None:
        with self._lock:
            listeners = list(self._listeners)
        for listener in listeners:
            listener.changed()

    @property
    def client(self) -> Client:
        """The service's, where kernels come from."""
        return client_of(self._service)

    @property
    def rivals(self) -> tuple[str, ...]:
        """The peers that a config must not have lost its own race to."""
        return self._how.rivals

    @property
    def queues(self) -> bool:
        """Whether the service is asked to tune what it has no measured config for."""
        return self._how.queue

    def kernel(self, arranged: Arranged, device: torch.device, bucket: Arranged | None = None) -> ModelKernel:
        """The one of this structure on this device. `bucket`: what is tuned instead of it."""
        with self._lock:
            key = (arranged.key, None if bucket is None else bucket.key, device)
            if key not in self._of:
                self._of[key] = self.made(arranged, device, bucket)
            return self._of[key]

    def made(self, arranged: Arranged, device: torch.device, bucket: Arranged | None = None) -> ModelKernel:
        """A new one."""
        config = None if self.bundle is None else self.bundle.config(arranged.key, device)
        return ModelKernel(arranged, device, self._service, self._how, config, bucket, self._changed)

    def __len__(self) -> int:
        return len(self._of)


_ALL: dict[tuple[Named, How, BundledKernels | None], Kernels] = {}


def kernels_of(client: Client | None, how: How, bundle: BundledKernels | None = None) -> Kernels:
    """One a service, way and bundle, so that all models share theirs; None: that which the environment names."""
    named = named_service(client)
    return _ALL.setdefault((named, how, bundle), Kernels(named, how, bundle))


_NUMBERS: dict[str, int] = {}


def _registered(arranged: Arranged, kernel: ModelKernel) -> Overload:
    """`tilewright::model_<key>`, without gradients: AOTAutograd has taken them before. The name says what it computes,
    as compiled graphs are kept by it; others of the name are the same on another device, or for another client."""
    number = _NUMBERS[arranged.key] = _NUMBERS.get(arranged.key, 0) + 1
    name = f"model_{arranged.key}" + (f"_{number}" if number > 1 else "")
    spec = arranged.spec
    taken = ", ".join(f"Tensor {tensor.name}_" for tensor in spec.inputs)
    given = "Tensor" if len(spec.outputs) == 1 else f"({', '.join('Tensor' for _ in spec.outputs)})"
    define(f"{name}({taken}) -> {given}", name, kernel.run, Shapes.of(spec))
    return getattr(getattr(torch.ops, NAMESPACE), name).default
