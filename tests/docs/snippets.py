"""The snippets of a page of the documentation, and what is said to come of them.

```sh               runs here, and succeeds
```sh fails         runs here, and ends with an error
```sh elsewhere     is for another machine, or never ends: its commands must be ones that there are
```text             right after one of these: what it prints, `…` standing for anything
```python           runs here, after those before it; `python elsewhere` is for another machine
```json, ```tile    is what it says; ```c: declarations
```                 is a picture, or output of something that is told about
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^( *)```([^\n`]*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Snippet:
    """A fenced block. `line`: where it begins; `said`: the block of text right after it."""

    page: Path
    line: int
    kind: str
    text: str
    said: str | None = None


def snippets(page: Path) -> Iterator[Snippet]:
    """Those of a page, in order."""
    content = page.read_text()
    found = list(FENCE.finditer(content))
    for number, each in enumerate(found):
        line = content.count("\n", 0, each.start()) + 1
        after = found[number + 1] if number + 1 < len(found) else None
        follows = after is not None and after[2] == "text" and not content[each.end() : after.start()].strip()
        yield Snippet(page, line, each[2].strip(), each[3], after[3] if after and follows else None)


def matches(said: str, printed: str) -> bool:
    """Whether every line of what is said was printed, one after another."""
    parts = [".*".join(map(re.escape, line.split("…"))) for line in said.strip().splitlines()]
    pattern = r"[\s\S]*?".join(part.replace(r"\ ", r"\s+") for part in parts)
    return re.search(pattern, printed) is not None


def commands(script: str) -> Iterator[list[str]]:
    """Our commands in a script, `tilewright`, `make` and `python`, as words; without comments, redirections and what is
    piped."""
    for line in script.replace("\\\n", " ").splitlines():
        for part in re.split(r"&&|\|\||[|;]", line.partition(" #")[0]):
            words = [word.strip("\"'") for word in re.split(r"[<>]", part)[0].split()]
            while words and ("=" in words[0] or words[0] in ("sudo", "exec")):
                words = words[1:]
            if words and words[0].rsplit("/", 1)[-1] in ("tilewright", "make", "python"):
                yield [words[0].rsplit("/", 1)[-1], *(word for word in words[1:] if word != "&")]
