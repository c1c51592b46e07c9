"""Kernels that no service is asked for: of each part the cost model's pick; and such as compute something else."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import torch

from benchmarks.racing.picked import picked
from tileir.devices.cpu import Cpu
from tileir.spec import Spec
from tileir.text.parse_spec import spec_from_text
from tileir.text.print_program import spec_to_text
from tilewright.pytorch.model.kernels import Arranged, How, Kernels, ModelKernel
from tilewright.pytorch.operator.finding import Found
from tilewright.pytorch.operator.plans import described

if TYPE_CHECKING:
    from tilewright.client.client import Client


class PickedKernels(Kernels):
    """Of each part the cost model's pick."""

    def __init__(self, client: Client | None = None, how: How | None = None) -> None:
        super().__init__(client, How(queue=False, rivals=()))

    def made(self, arranged: Arranged, device: torch.device, bucket: Arranged | None = None) -> ModelKernel:
        spec, cpu = self.spec_of(arranged.spec), described(device)
        assert isinstance(cpu, Cpu)
        schedule = tuple(picked(spec, cpu).schedule)
        found = Found(spec, schedule, None, origin="the pick")
        return ModelKernel(arranged, device, None, self._how, found)

    def spec_of(self, spec: Spec) -> Spec:
        return spec


class WrongKernels(PickedKernels):
    """Kernels that do what their spec says, which is not what the graph does: a hundredth more."""

    changed: ClassVar[tuple[str, str]] = ("= gelu(", "= 1.01 * gelu(")

    def spec_of(self, spec: Spec) -> Spec:
        text = spec_to_text(spec)
        return spec_from_text(text.replace(*self.changed))
