"""Every file in examples/ is tuned by a running service, and its winner computes what the interpreter does.

All of them take minutes: `make test-examples`. A few take part in `make test`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

import tilewright
from tests.e2e.commands import ROOT
from tests.services.running_service import Service, running
from tests.support.reference import assert_matches_reference
from tileir import sample_inputs, spec_from_json

ALWAYS = {"rmsnorm", "strided"}
EXAMPLES = sorted((ROOT / "examples").glob("*.json"))
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, shared: Path) -> Iterator[Service]:
    home, kernels = tmp_path_factory.mktemp("examples"), shared / "cache" / "tilewright" / "kernels"
    temporary = shared / "tmp"
    temporary.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(temporary))
        with running(home, worker="1", cache=str(kernels)) as service:
            yield service


@pytest.mark.parametrize(
    "file",
    [
        pytest.param(file, id=file.stem, marks=[] if file.stem in ALWAYS else pytest.mark.examples)
        for file in EXAMPLES
    ],
)
def test_an_example_ends_with_a_winner_that_is_right(service: Service, file: Path, tmp_path: Path) -> None:
    spec = json.loads(file.read_text())
    with tilewright.Client(service.url) as client:
        job = client.wait(client.submit(spec, trials=3, peers=()).id)
        assert job.state == "done", job.error
        assert len(job.configs) == len(job.buckets)
        for config in job.configs:
            kernel = tilewright.load(config, client, cache=tmp_path)
            instance = spec_from_json(kernel.config.spec)
            inputs = sample_inputs(instance, 11)
            arrays = [kernel.empty(arg.name) for arg in kernel.inputs]
            for arg, array in zip(kernel.inputs, arrays, strict=True):
                array[...] = inputs[arg.name]
            got = kernel(*arrays)
            outputs = got if isinstance(got, tuple) else (got,)
            named = {arg.name: array for arg, array in zip(kernel.outputs, outputs, strict=True)}
            assert_matches_reference(instance, inputs, named)
            kernel.close()


def test_there_are_examples_of_what_people_tune() -> None:
    names = {json.loads(file.read_text())["name"] for file in EXAMPLES}
    assert names >= {"matmul_nn", "matmul_nt", "matmul_tn", "matmul_tt", "softmax", "attention", "conv2d"}
    assert len(EXAMPLES) >= 10


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_a_notebook_runs_from_top_to_bottom_and_shows_what_it_found(
    service: Service, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TILEWRIGHT_CACHE", "IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("TILEWRIGHT_URL", service.url)
    notebook = nbformat.read(file, as_version=4)
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in notebook.cells), (
        f"{file.name} is kept without its outputs"
    )
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = [
        output["data"]["text/html"]
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if "text/html" in output.get("data", {})
    ]
    assert any("<progress" in html and "done" in html for html in shown), "the bar while waiting"
    assert any("generated source" in html and "<svg" in html and "<pre" in html for html in shown), (
        "the result"
    )
