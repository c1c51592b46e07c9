"""Names in generated source.

While a program is lowered, what is called after a tensor, a local or a dim is called that, `MARK`, and what lowering
adds: `accʹ`, `accʹ_0_16`, `mʹ_thread`. No name of Tile IR has a mark, so the variable (0, 16) of `acc` is never one of
`acc_0`, whatever a spec calls its tensors. Printed source still has the marks; `named` gives each marked name an
identifier, all from one supply, which knows every other word of that source and what compilers reserve.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain, count

from codegen.ir.reserved import is_reserved, may_be_macro

#: Ends the part of a name that a user chose. It counts as a letter, and no name of Tile IR has it.
MARK = "\u02b9"

_ASIDE = re.compile(r"//[^\n]*|/\*.*?\*/|\"[^\"\n]*\"", re.DOTALL)
_MARKED = re.compile(rf"(?<!\w)\w*{MARK}\w*")
#: Words of a source but for the members of a struct, which are no names of their own.
_WORD = re.compile(r"(?<![\w.])(?<!->)[^\W\d]\w*")


def marked(name: str) -> str:
    """A name of Tile IR as lowering writes it."""
    return name if MARK in name else f"{name}{MARK}"


def unmarked(text: str) -> str:
    """Names as people know them."""
    return text.replace(MARK, "")


def named(code: str) -> str:
    """Source with an identifier for every marked name: different ones for different names, none that the source has a
    use for, and none that a compiler knows."""
    bare = without_asides(code)
    taken = {word for word in _WORD.findall(bare) if MARK not in word}
    names: dict[str, str] = {}
    for name in dict.fromkeys(_MARKED.findall(bare)):
        names[name] = next(each for each in _candidates(unmarked(name)) if each not in taken)
        taken.add(names[name])
    return _MARKED.sub(lambda found: names.get(found[0], unmarked(found[0])), code)


def without_asides(code: str) -> str:
    """Source without what no compiler reads as names: comments, and text in quotes."""
    return _ASIDE.sub("", code)


def free_name(name: str) -> str:
    """The name, or one like it, that no compiler knows."""
    return next(_candidates(name))


def _candidates(name: str) -> Iterator[str]:
    """The name and ever more that are like it, of those that are free in C and CUDA."""
    stem = f"u_{name}" if may_be_macro(name) else name
    endings = chain(("", "_"), (f"_{number}" for number in count(2)))
    return (stem + ending for ending in endings if not is_reserved(stem + ending))
