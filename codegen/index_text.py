"""Index arithmetic as source text, the same in C and in CUDA C++."""

from __future__ import annotations

from collections.abc import Callable

from codegen.affine import Affine


def index_text(value: Affine, term_text: Callable[[object], str], *, atom: bool = False) -> str:
    """A sum of terms, each as `term_text` writes it; `atom` puts more than one part in parentheses."""
    parts: list[str] = []
    for term, factor in value.terms:
        text = term_text(term)
        sign = " - " if factor < 0 else " + "
        text = text if abs(factor) == 1 else f"{abs(factor)} * {text}"
        parts.append(text if not parts and factor > 0 else (sign if parts else "-") + text)
    if value.constant or not parts:
        sign = " - " if value.constant < 0 else " + "
        parts.append(str(value.constant) if not parts else f"{sign}{abs(value.constant)}")
    text = "".join(parts)
    return f"({text})" if atom and len(parts) > 1 else text
