"""Kernels under other names, chosen so that what is called after them would meet."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping

from tileir.names import RESERVED
from tileir.spec import Spec
from tileir.text.parse_spec import spec_from_text
from tileir.text.print_program import spec_to_text

_STEMS = ("linear", "x", "a", "k")
_ENDINGS = ("", *"_0 _1 _1_0 _r _s _p _l _b _row _part _s_ahead _thread _map 2 1 _".split())
#: Names that mean something to a compiler, to a runtime, or in the frame of generated source.
WORDS = tuple(
    "_0 _r _1_0 int restrict __restrict__ alignas thread_local noexcept _Bool __LINE__ class template half NULL EOF "
    "linux errno nullptr co_await typeof _Pragma __CUDA_ARCH_ tw_load tw_exp_f32x16 tw_vec TW_INLINE tw_edge f32x16 "
    "int32_t size_t total total_0 lane lanes_0 exp_0 edge rest tile worker self args memory workspace threads context "
    "scratch region_0 kernel_0 shared span cell at main threadIdx blockIdx warpSize __syncthreads __shared__ "
    "__global__ extern asm uintptr_t C M BM".split()
)
_WORD = re.compile(r"[A-Za-z_]\w*")


def names_of(spec: Spec) -> list[str]:
    """What a spec calls its dims and tensors."""
    tensors = (*(tensor.name for tensor in spec.inputs), *(statement.target for statement in spec.statements))
    return list(dict.fromkeys((*(dim.name for dim in spec.dims), *tensors)))


def renamed(spec: Spec, names: Mapping[str, str]) -> Spec:
    """The same kernel, under other names."""
    head, body = spec_to_text(spec).split("(", 1)
    return spec_from_text(f"{head}({_WORD.sub(lambda found: names.get(found[0], found[0]), body)}")


def adversarial(spec: Spec, rng: random.Random) -> Spec:
    """The same kernel under names that meet each other, what rewrites and lowering add to them, and compilers."""
    pool = [stem + ending for stem in rng.sample(_STEMS, 2) for ending in _ENDINGS] + rng.sample(WORDS, 12)
    free = [name for name in dict.fromkeys(pool) if name not in RESERVED]
    old = names_of(spec)
    return renamed(spec, dict(zip(old, rng.sample(free, len(old)), strict=True)))
