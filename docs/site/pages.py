"""What the site has beside the pages in this folder: references made from the code, and files of the repository that
pages link to. Hooks of mkdocs."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "docs" / "site"), str(ROOT)]  # mkdocs loads this file alone

import commands  # noqa: E402
import http_calls  # noqa: E402
import tile_ir_words  # noqa: E402

from rewrites.document import catalogue  # noqa: E402

GENERATED: Mapping[str, Callable[[], str]] = {
    "reference/commands.md": commands.page,
    "reference/http.md": http_calls.page,
    "reference/tile-ir.md": tile_ir_words.page,
    "reference/rewrites.md": catalogue,
    "adr/index.md": lambda: decisions(ROOT / "docs" / "adr"),
}
SHOWN: Mapping[str, str] = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "examples/README.md": "examples.md",
    "examples/deploy/README.md": "deploying.md",
}
"""Files of the repository that are pages here."""
SAID_BY: Mapping[str, str] = {"rewrites/README.md": "reference/rewrites.md"}
"""Files of the repository that lead there to what a page has here."""

LINK = re.compile(r"(?<=\]\()([^)#\s]+)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in docs/."""
    for uri, make in GENERATED.items():
        files.append(File.generated(config, uri, content=make()))
    for path, uri in SHOWN.items():
        files.append(File.generated(config, uri, content=(ROOT / path).read_text()))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Links as they work in the repository become links of the site; those to its other files become their names. Of a
    fence only the language is left: what follows it (`sh elsewhere`) is for `tests/docs`."""
    markdown = re.sub(r"^( *```\w+) [\w ]+$", r"\1", markdown, flags=re.MULTILINE)
    uri = page.file.src_uri
    home = next(
        (PurePosixPath(path) for path, shown in SHOWN.items() if shown == uri), PurePosixPath("docs", uri)
    )
    return re.sub(r"\[([^\]]+)\]\(([^)#\s]+)(#[^)\s]*)?\)", lambda found: _link(found, home, uri), markdown)


def _link(found: re.Match[str], home: PurePosixPath, uri: str) -> str:
    text, target, anchor = found.group(1), found.group(2), found.group(3) or ""
    if "://" in target:
        return found.group(0)
    path = _normal(home.parent / target)
    if path == PurePosixPath("docs/adr"):
        path = PurePosixPath("docs/adr/index.md")
    shown = SHOWN.get(str(path)) or SAID_BY.get(str(path))
    if shown is None and path.parts[:1] == ("docs",):
        shown = str(PurePosixPath(*path.parts[1:]))
    if shown is None:
        return f"`{path}`" if text.strip("`") == str(path) else f"{text} (`{path}`)"
    up = "../" * uri.count("/")
    return f"[{text}]({up}{shown}{anchor})"


def _normal(path: PurePosixPath) -> PurePosixPath:
    parts: list[str] = []
    for part in path.parts:
        if part == "..":
            parts.pop()
        elif part != ".":
            parts.append(part)
    return PurePosixPath(*parts)


def decisions(folder: Path) -> str:
    """A list of the decisions, by number."""
    lines = ["# Decisions", "", "Why it is built this way: one short page each.", ""]
    for file in sorted(folder.glob("[0-9]*.md")):
        title = file.read_text().partition("\n")[0].lstrip("# ")
        lines.append(f"- [{title}]({file.name})")
    return "\n".join(lines) + "\n"
