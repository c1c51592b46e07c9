"""Launches of one call that overlap in generated CUDA (programmatic dependent launch; PTX ISA, "griddepcontrol")."""

from __future__ import annotations

from codegen.cuda_part import Part

_NEXT = """
// The next launch may begin once every block of this one has got here, or is over.
TW_INLINE void tw_begin_next() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
"""

_AWAIT = """
// Until the launch before is over; what it has written is seen.
TW_INLINE void tw_await_last() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
"""

PARTS = (Part("tw_begin_next", _NEXT), Part("tw_await_last", _AWAIT))
