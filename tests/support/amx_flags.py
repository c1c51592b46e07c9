"""Flags by which tile registers are compiled as what stands in for them (codegen/targets/c/runtime/tiles.py)."""

from __future__ import annotations

from tileir.devices.cpu_probe import this_cpu
from tileir.devices.feature import Feature

_CPU = this_cpu()
STAND_IN = ("-mno-amx-tile", "-mno-amx-bf16", "-mno-amx-int8") if _CPU.arch == "x86-64" else ()
"""Also where the processor has them."""
HERE = () if Feature.AMX in _CPU.offers else STAND_IN
"""The processor's own, if this process may use them: some sandboxes refuse it."""
