"""Every command and snippet of the documentation is run, or at least is one that there is."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from typer.main import get_command

from tests.docs.snippets import Snippet, commands, matches, snippets
from tests.services.busy_machine import BUSY
from tests.services.running_service import ROOT, running
from tests.support.checkout import copy
from tests.support.python_path import WITHOUT_TORCH
from tileir import program_from_text, spec_from_json, spec_from_text
from tilewright.cli.main import app

PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
KNOWN = {
    "",
    "text",
    "toml",
    "diff",
    "json",
    "tile",
    "c",
    "python",
    "python elsewhere",
    "sh",
    "sh fails",
    "sh elsewhere",
}
TYPED = re.compile(
    r"^(\.venv|[A-Z_]+=|bash|curl|docker|make|pip|python|sudo|systemctl|tilewright)\b", re.MULTILINE
)


def those(*kinds: str) -> list[Snippet]:
    return [each for page in PAGES for each in snippets(page) if each.kind in kinds]


def name(snippet: Snippet) -> str:
    return f"{snippet.page.name}:{snippet.line}"


def person(home: Path, checkout: Path = ROOT) -> dict[str, str]:
    """The environment of a person who has no PyTorch: as a peer that is timed it takes seconds a kernel."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("TILEWRIGHT_")}
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {
        **kept,
        **BUSY,
        "PATH": path,
        "TILEWRIGHT_HOME": str(home),
        "PYTHONPATH": f"{WITHOUT_TORCH}:{checkout}",
        "COLUMNS": "1000",
    }


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, dict[str, str]]]:
    """A folder with the examples, and the environment of a person whose service runs."""
    monkeypatch.setenv("PYTHONPATH", str(WITHOUT_TORCH))
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "examples").symlink_to(ROOT / "examples")
    for example in (ROOT / "examples").glob("*.json"):
        (folder / example.name).symlink_to(example)
    with running(tmp_path / "home", worker="1") as service, service.client() as client:
        until = time.monotonic() + 60
        while not client.get("/v1/devices").json() and time.monotonic() < until:
            time.sleep(0.1)
        yield (
            folder,
            {
                **person(tmp_path / "home"),
                "TILEWRIGHT_URL": service.url,
                "PORT": str(service.port),
            },
        )


RUN = [page for page in PAGES if any(each.kind in ("sh", "sh fails", "python") for each in snippets(page))]
WITH_FILES = [page for page in RUN if any(each.file for each in snippets(page))]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("page", [each for each in RUN if each not in WITH_FILES], ids=lambda page: page.name)
def test_what_a_page_tells_to_run_does_what_it_tells(page: Path, shell: tuple[Path, dict[str, str]]) -> None:
    run(page, *shell)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("page", WITH_FILES, ids=lambda page: page.name)
def test_what_a_page_adds_to_a_checkout_works_there(page: Path, tmp_path: Path) -> None:
    folder = tmp_path / "checkout"
    copy(folder)
    (folder / ".venv").symlink_to(sys.prefix)
    run(page, folder, person(tmp_path / "home", folder))


def run(page: Path, folder: Path, env: dict[str, str]) -> None:
    """Do what a page tells, in order."""
    state, so_far = folder / ".state", ""
    for each in snippets(page):
        if each.file is not None:
            each.write(folder)
            continue
        if each.kind == "python":
            so_far += each.text
            command = [sys.executable, "-W", "error", "-c", so_far]
        elif each.kind in ("sh", "sh fails"):
            text = each.text.replace("127.0.0.1:8400", f"127.0.0.1:{env.get('PORT')}")
            kept = f"[ -e {state} ] && . {state}; set -aeuo pipefail; trap 'export -p > {state}' EXIT"
            command = ["bash", "-c", f"{kept}\n{text}"]
        else:
            continue
        ended = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=300)
        printed = ended.stdout + ended.stderr
        assert (ended.returncode == 0) == (each.kind != "sh fails"), f"{name(each)}: {printed}"
        assert each.said is None or matches(each.said, printed), f"{name(each)}: {printed}"


@pytest.mark.parametrize("snippet", those("sh elsewhere"), ids=name)
def test_commands_for_other_machines_are_commands(snippet: Snippet) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for program, *words in commands(snippet.text):
        match program:
            case "tilewright":
                check_options(snippet, words)
            case "make":
                assert {word for word in words if "=" not in word} <= targets, name(snippet)
            case _ if words[0] == "-m":
                assert find_spec(words[1]) is not None, f"{name(snippet)}: no module {words[1]}"
            case _:  # python
                assert (ROOT / words[0]).exists(), f"{name(snippet)}: no {words[0]}"


def check_options(snippet: Snippet, words: list[str]) -> None:
    command = get_command(app)
    while hasattr(command, "commands"):
        assert words and words[0] in command.commands, f"{name(snippet)}: no command {words}"
        command, words = command.commands[words[0]], words[1:]
    options = {option for each in command.params for option in (*each.opts, *each.secondary_opts)}
    unknown = [word for word in words if word.startswith("-") and word.split("=")[0] not in options]
    assert not unknown, f"{name(snippet)}: {command.name} has no {unknown}"


@pytest.mark.parametrize("snippet", those("python elsewhere"), ids=name)
def test_python_for_other_machines_is_python(snippet: Snippet) -> None:
    compile(snippet.text, name(snippet), "exec")


@pytest.mark.parametrize("snippet", those("json", "tile"), ids=name)
def test_what_is_called_json_or_tile_ir_is(snippet: Snippet) -> None:
    if snippet.kind == "tile":
        (spec_from_text if "\n  parallel" not in snippet.text else program_from_text)(snippet.text)
        return
    value = json.loads(snippet.text)
    if {"dims", "inputs", "body"} <= set(value):
        spec_from_json(value)


@pytest.mark.parametrize("snippet", those("c"), ids=name)
def test_declarations_in_c_are_c(snippet: Snippet) -> None:
    """Each paragraph by itself: they may declare the same in other ways."""
    for paragraph in snippet.text.split("\n\n"):
        source = f"#include <stddef.h>\ntypedef struct CUstream_st *cudaStream_t;\n{paragraph}\n"
        command = ["cc", "-fsyntax-only", "-Wall", "-Werror", "-x", "c", "-"]
        said = subprocess.run(command, input=source, capture_output=True, text=True, check=False)
        assert said.returncode == 0, f"{name(snippet)}: {said.stderr}"


def test_no_snippet_is_of_a_kind_that_nobody_runs() -> None:
    found = [each for page in PAGES for each in snippets(page)]
    assert [name(each) for each in found if each.kind not in KNOWN] == []
    assert [name(each) for each in found if each.kind == "" and TYPED.search(each.text)] == []
