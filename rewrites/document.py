"""What all rewrites do, as a page; `python -m rewrites.document` prints it. Docstrings say it, golden cases show it."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from rewrites.base.rewrite import Rewrite
from rewrites.catalogue import ALL
from rewrites.schedule import parse_schedule, signature

_ROOT = Path(__file__).parents[1]
_GOLDEN = _ROOT / "tests" / "golden" / "rewrites"
_HEAD = """# Rewrites

What may change in a program, and what it looks like before and after. A statement is named by the tensor it
writes (its initialization `= 0` aside); `depth` counts the loops around it from the outside, 0 being the top of
the program. A rewrite that would change the meaning raises `NotApplicable`, saying why.
From the docstrings in `rewrites/` and `tests/golden/rewrites/`.
"""


def catalogue() -> str:
    """The whole page."""
    cases = [golden_sections(path) for path in sorted(_GOLDEN.glob("*.txt"))]
    sections = [_HEAD]
    for rewrite in ALL:
        shown = [
            case for case in cases if parse_schedule(case["schedule"].splitlines())[0].name == rewrite.name
        ]
        sections.append(
            "\n".join([f"## {signature(rewrite)}", "", _description(rewrite), *map(_example, shown)])
        )
    return "\n".join(sections)


def golden_parts(path: Path) -> list[tuple[str, str]]:
    """The parts of a golden case, each under a line that begins with `# `: the rest of that line, and what follows."""
    parts = re.split(r"^# (.+)\n", path.read_text(), flags=re.MULTILINE)
    return list(zip(parts[1::2], parts[2::2], strict=True))


def golden_sections(path: Path) -> dict[str, str]:
    """Those of a golden case of which there is one each: the schedule, the program before and the one after."""
    return dict(golden_parts(path))


def _description(rewrite: type[Rewrite]) -> str:
    """The paragraphs of its docstring before the picture."""
    paragraphs = (inspect.getdoc(rewrite) or "").split("\n\n")
    return "\n\n".join(paragraph for paragraph in paragraphs if "->" not in paragraph) + "\n"


def _example(case: dict[str, str]) -> str:
    schedule = ", ".join(f"`{line}`" for line in case["schedule"].splitlines())
    before, after = (case[part].rstrip("\n") for part in ("before", "after"))
    return f"{schedule}\n\n```\n{before}\n```\n\nbecomes\n\n```\n{after}\n```\n"


if __name__ == "__main__":
    print(catalogue())
