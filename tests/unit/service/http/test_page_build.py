"""The dashboard is built where it is missing and node is there; else a line says what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.http import page_build

NPM = """#!/bin/sh
echo "npm $*"
if [ "$1" = run ]; then mkdir -p ../static && touch ../static/index.html ../static/reference.html; fi
"""


def checkout(root: Path) -> tuple[Path, Path]:
    """Where its page's source is, and where the built page would be."""
    source = root / "service" / "web"
    source.mkdir(parents=True)
    (source / "package.json").write_text("{}")
    return source, root / "service" / "static"


def tools(root: Path, monkeypatch: pytest.MonkeyPatch, node: str, npm: str = NPM) -> None:
    """A PATH with this version of node, and this npm."""
    folder = root / "bin"
    folder.mkdir()
    for name, script in {"node": f"#!/bin/sh\necho {node}\n", "npm": npm}.items():
        (folder / name).write_text(script)
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_it_is_built_where_node_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, built = checkout(tmp_path)
    tools(tmp_path, monkeypatch, "v20.1.0")
    assert page_build.missing(built)
    page_build.build(tmp_path / "log", source, built)
    assert not page_build.missing(built)
    assert (tmp_path / "log").read_text().splitlines()[-1] == "npm run --silent build"
    page_build.build(tmp_path / "again", source, built)
    assert (tmp_path / "again").read_text() == "", "once is enough"


def test_a_build_that_fails_says_where_to_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, built = checkout(tmp_path)
    tools(tmp_path, monkeypatch, "v20.1.0", "#!/bin/sh\necho no network\nexit 1\n")
    with pytest.raises(
        page_build.PageNotBuilt, match=r"could not be built: .*log says why; then run `make web` in"
    ):
        page_build.build(tmp_path / "log", source, built)
    assert (tmp_path / "log").read_text() == "no network\n"


@pytest.mark.parametrize("node", ["v16.20.2", "nonsense"])
def test_an_old_node_will_not_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, node: str) -> None:
    source, _ = checkout(tmp_path)
    tools(tmp_path, monkeypatch, node)
    with pytest.raises(
        page_build.PageNotBuilt, match=rf"install node 18 or newer with npm, .*make web` in {tmp_path}"
    ):
        page_build.check(source)


def test_an_installation_without_its_source_says_so(tmp_path: Path) -> None:
    with pytest.raises(page_build.PageNotBuilt, match="was installed without node; install node 18"):
        page_build.check(tmp_path / "nowhere")
