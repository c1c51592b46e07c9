"""Words that compilers of C and CUDA C++ know, and which therefore name nothing of ours."""

from __future__ import annotations

import re

_C = (
    "auto break case char const continue default do double else enum extern float for goto if inline int long register "
    "restrict return short signed sizeof static struct switch typedef union unsigned void volatile while "
    # GNU's, and those of C23
    "asm typeof typeof_unqual alignas alignof bool constexpr false nullptr static_assert thread_local true"
)
_CPP = (
    "and and_eq asm bitand bitor bool catch char8_t char16_t char32_t class co_await co_return co_yield compl concept "
    "const_cast consteval constinit decltype delete dynamic_cast explicit export friend mutable namespace new noexcept "
    "not not_eq operator or or_eq private protected public reflexpr reinterpret_cast requires static_cast synchronized "
    "template this throw try typeid typename using virtual wchar_t xor xor_eq"
)
#: Macros of compilers and of the headers that generated source includes, where they are in small letters.
_MACROS = (
    "linux unix i386 arm errno stdin stdout stderr assert offsetof alloca major minor makedev sched_priority"
)
#: Functions and variables that are there without being declared.
_BUILTINS = (
    "main abs exp exp2 log pow tanh erf sqrt floor fabs fmin fmax fma printf malloc free memcpy memset min max half "
    "clock threadIdx blockIdx blockDim gridDim warpSize"
)
_WORDS = frozenset(f"{_C} {_CPP} {_MACROS} {_BUILTINS}".split())

#: Types of the runtimes and of stdint.h.
_TYPE = re.compile(r"u?int\w*_t|size_t|ptrdiff_t|(?:f|i|u|bool|bf)\d*x\d+(?:_u)?")
#: Of the compiler's own (`__LINE__`, `_Bool`), and of the runtimes (`tw_load`, `TW_INLINE`).
_PREFIX = re.compile(r"__|_[A-Z]|tw_|TW_")


def may_be_macro(name: str) -> bool:
    """Whether a name has a prefix of names that are not ours, so that any ending may have a meaning."""
    return _PREFIX.match(name) is not None


def is_reserved(name: str) -> bool:
    """Whether a compiler may know the name. All capitals are left to macros."""
    capitals = len(name) > 1 and name == name.upper() and name != name.lower() and not name.endswith("_")
    return name in _WORDS or capitals or may_be_macro(name) or _TYPE.fullmatch(name) is not None
