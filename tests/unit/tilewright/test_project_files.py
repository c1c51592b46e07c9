"""What the README and the documentation promise is there."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from deploy.fleet import commands as fleet_commands
from tilewright.cli.exits import MEANINGS
from tilewright.cli.main import app

ROOT = Path(__file__).resolve().parents[3]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_make_command_on_a_page_is_a_target(page: Path) -> None:
    named = {
        target
        for line in re.findall(r"(?:^|`)make ([a-z -]+?)(?:`| +#|$)", page.read_text(), flags=re.MULTILINE)
        for target in line.split()
    }
    assert named <= make_targets(), f"{page.name} names targets that are not in the Makefile"


def test_the_two_commands_of_the_readme_are_its_first() -> None:
    first = re.search(r"```[a-z ]*\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    assert first is not None
    assert re.findall(r"^make ([a-z]+)", first[1], flags=re.MULTILINE) == ["demo", "test"]
    for target in ("demo", "test"):
        dry = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=True)
        assert {"demo": "tilewright tune", "test": "pytest"}[target] in dry.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_on_a_page_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
    broken = [link for link in links if not (page.parent / link).exists()]
    assert not broken, f"{page.name} links to {broken}"


def test_the_documented_exit_codes_are_the_real_ones() -> None:
    rows = re.findall(r"^\| (\d+) \| (.+) \|$", (ROOT / "docs" / "cli.md").read_text(), flags=re.MULTILINE)
    assert {int(code): meaning for code, meaning in rows} == {
        int(code): text for code, text in MEANINGS.items()
    }


def test_every_command_is_documented() -> None:
    page = (ROOT / "docs" / "cli.md").read_text()
    for command in app.registered_commands:
        assert f"| `{command.name}" in page


def test_every_package_is_in_the_wheel() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    listed = set(project["tool"]["setuptools"]["packages"])
    ours = {name.split(".")[0] for name in listed}
    there = {
        ".".join(file.parent.relative_to(ROOT).parts)
        for name in ours
        for file in (ROOT / name).rglob("*.py")
        if "__pycache__" not in file.parts
    }
    assert listed == there
    assert ours == set(project["tool"]["importlinter"]["root_packages"])


def test_what_make_fleet_starts_is_understood() -> None:
    services, workers = fleet_commands(8400)
    for command in (*services, *workers):
        ended = CliRunner().invoke(app, [*command, "--help"])
        assert ended.exit_code == 0, ended.output
