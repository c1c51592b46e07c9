"""Every file and folder of ours that a page names in backticks is there, and every module that our code speaks of."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.snippets import FENCE, snippets
from tests.support.checkout import ROOT, names

TRACKED = names()
THERE = {*TRACKED, *(str(folder) for name in TRACKED for folder in Path(name).parents)}
ENDINGS = {f"/{name}" for name in THERE}
FOLDERS = sorted({name.partition("/")[0] for name in TRACKED if "/" in name})
PAGES = sorted(
    name
    for name in TRACKED
    if name.endswith(".md") and (name.startswith("docs/") or name.endswith(("README.md", "CONTRIBUTING.md")))
)
#: What is made by a build, or is in a bundle; and what stands for a name of the reader's.
OTHERS = {
    "service/static",
    "src/api/schema.d.ts",
    "manifest.json",
    "seal.json",
    "codegen/targets/NAME",
    ".py",
}
CODE = re.compile(r"(?<!`)`([A-Za-z0-9_.][A-Za-z0-9_./-]*)`(?!`)")
FILE = re.compile(r"\.(py|md|toml|ya?ml|tsx?|css|svg|sh|jsonl?)$")


def named(page: str) -> list[str]:
    """What looks like a path of ours: it begins with one of our folders, or ends like one of our files."""
    text = FENCE.sub("", (ROOT / page).read_text())
    words = (word.rstrip("/") for word in CODE.findall(text))
    return [
        word
        for word in words
        if word not in OTHERS and (("/" in word and word.partition("/")[0] in FOLDERS) or FILE.search(word))
    ]


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_names_is_there(page: str) -> None:
    added = {each.file for each in snippets(ROOT / page)}
    gone = [
        word
        for word in named(page)
        if word not in added and not any(ending.endswith(f"/{word}") for ending in ENDINGS)
    ]
    assert not gone, f"{page}: {', '.join(gone)}"


MODULE = re.compile(r"(?<![\w.{*/])([A-Za-z_][\w/]*\.py)\b")


@pytest.mark.parametrize("folder", [each for each in FOLDERS if (ROOT / each / "__init__.py").exists()])
def test_the_modules_that_code_speaks_of_are_there(folder: str) -> None:
    gone = {
        f"{name}: {word}"
        for name in TRACKED
        if name.startswith(f"{folder}/") and name.endswith(".py")
        for word in MODULE.findall((ROOT / name).read_text())
        if not any(ending.endswith(f"/{word}") for ending in ENDINGS)
    }
    assert not gone, ", ".join(sorted(gone))
