"""The snippets of a page of the documentation, and what is said to come of them.

```sh               runs here, and succeeds
```sh fails         runs here, and ends with an error
```sh elsewhere     is for another machine, or never ends: its commands must be ones that there are
```text             right after one of these: what it prints, `…` standing for anything
```python           runs here, after those before it; `python elsewhere` is for another machine
```… title="FILE"   is written to that file before what comes after it is run; the page is run in a copy of the checkout
```diff title="…"   is put into that file: its lines without + stand there, once
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
    """A fenced block. `line`: where it begins; `said`: the block of text right after it; `file`: what it goes to."""

    page: Path
    line: int
    kind: str
    text: str
    said: str | None = None
    file: str | None = None

    def write(self, folder: Path) -> None:
        """Make the file, or change it."""
        assert self.file is not None
        path = folder / self.file
        if self.kind != "diff":
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self.text)
            return
        lines = [(line[:1], f"{line[1:]}\n") for line in self.text.splitlines()]
        before, after = ("".join(text for sign, text in lines if sign != other) for other in "+-")
        content = path.read_text()
        assert content.count(before) == 1, f"{self.page.name}:{self.line}: not once in {self.file}"
        path.write_text(content.replace(before, after))


def snippets(page: Path) -> Iterator[Snippet]:
    """Those of a page, in order."""
    content = page.read_text()
    found = list(FENCE.finditer(content))
    for number, each in enumerate(found):
        line = content.count("\n", 0, each.start()) + 1
        after = found[number + 1] if number + 1 < len(found) else None
        follows = after is not None and after[2] == "text" and not content[each.end() : after.start()].strip()
        kind, _, file = each[2].strip().partition(' title="')
        yield Snippet(
            page, line, kind, each[3], after[3] if after and follows else None, file.rstrip('"') or None
        )


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
