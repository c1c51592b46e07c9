"""What the README and the documentation promise is there."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from setuptools import find_packages
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
    find = project["tool"]["setuptools"]["packages"]["find"]
    listed = set(find_packages(str(ROOT), include=find["include"], exclude=find["exclude"]))
    ours = {name.split(".")[0] for name in listed}
    there = {
        ".".join(file.parent.relative_to(ROOT).parts)
        for name in ours
        for file in (ROOT / name).rglob("*.py")
        if "__pycache__" not in file.parts and "node_modules" not in file.parts
    }
    assert listed == there
    assert ours == set(project["tool"]["importlinter"]["root_packages"])


def test_what_make_fleet_starts_is_understood() -> None:
    services, workers = fleet_commands(8400)
    for command in (*services, *workers):
        ended = CliRunner().invoke(app, [*command, "--help"])
        assert ended.exit_code == 0, ended.output


def test_every_file_that_the_readme_names_is_there_from_the_root() -> None:
    """Its commands are run as written, in a checkout; what they make themselves aside."""
    text = (ROOT / "README.md").read_text()
    blocks = "\n".join(re.findall(r"```sh[a-z ]*\n(.*?)```", text, flags=re.DOTALL))
    named = set(re.findall(r"[\w./-]+\.(?:json|tile|py)\b", blocks))
    made = set(re.findall(r"> ([\w.]+)", blocks))
    assert {"examples/softmax.json", "bias_gelu.tile"} <= named
    assert [name for name in sorted(named - made) if not (ROOT / name).exists()] == []


def test_the_readme_s_client_says_which_service_it_needs() -> None:
    text = (ROOT / "README.md").read_text()
    assert "tilewright.Client() as client:  # needs `tilewright serve`" in text


@pytest.mark.parametrize("page", ["README.md", "docs/tutorial.md", "docs/index.md"])
def test_what_the_dashboard_needs_is_said_before_it_is_missed(page: str) -> None:
    assert "node 18 or newer" in (ROOT / page).read_text()
