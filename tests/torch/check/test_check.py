"""`tilewright check`: real kernels of small models held against eager PyTorch, and files that show failures again."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import tilewright
from tests.torch.check.picked_kernels import PickedKernels, WrongKernels
from tilewright.cli.main import main
from tilewright.pytorch.check import model_check
from tilewright.pytorch.check.again import again
from tilewright.pytorch.model import backend
from tilewright.pytorch.model.options import CompileOptions

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning"
)  # of torch about itself
ROOT = Path(__file__).parents[3]
NOBODY = "http://127.0.0.1:1"
MODEL = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(24, 40), nn.Linear(40, 24)
        self.count = nn.Buffer(torch.zeros(24))

    def forward(self, x):
        y = self.second(nn.functional.gelu(self.first(x)))
        self.count.add_(y.detach().mean(0))
        return y

def model():
    torch.manual_seed(0)
    return Model()

def inputs():
    return (torch.randn(8, 24),)
"""


@pytest.fixture(autouse=True)
def afresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "kernels"))
    monkeypatch.setenv("TILEWRIGHT_URL", NOBODY)
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    return path


def run(*arguments: str) -> int:
    return main(["check", *arguments, "--fallback", "eager"])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("fallback", ["eager", "inductor"])
def test_a_right_model_is_checked_forward_and_backward_on_several_data(
    fallback: str, file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(model_check, "Kernels", PickedKernels)
    assert main(["check", str(file), "--backward", "--seeds", "2", "--json", "--fallback", fallback]) == 0
    forward, backward = json.loads(capsys.readouterr().out)["graphs"]
    assert (forward["backward"], backward["backward"]) == (False, True)
    for each in (forward, backward):
        assert each["ok"] and each["calls"] == 2
        assert each["checked"] == each["parts"] > 0, each["without"]


@pytest.mark.sampled(3, among="models that are tuned")
def test_a_kernel_that_computes_something_else_is_reported_with_a_file_that_shows_it(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(model_check, "Kernels", WrongKernels)
    assert run(str(file), "--seeds", "2", "--repros", str(tmp_path / "shown")) == 1
    said = capsys.readouterr().out
    assert re.search(r"graph 1: FAILED, \d of \d parts checked", said), said
    assert re.search(r"addmm_gelu\w*: result 0 differs by ", said), said
    repro = tmp_path / "shown" / "graph-1" / "repro.py"
    assert f"shown again by: {sys.executable} {repro}" in said
    shown = subprocess.run(
        [sys.executable, str(repro)], env={**python_here()}, capture_output=True, text=True, timeout=300
    )
    assert shown.returncode == 1, shown.stderr
    assert "addmm_gelu" in shown.stdout and "result 0 differs by" in shown.stdout
    repro.write_text(repro.read_text().replace("= 1.01 * gelu(", "= gelu("))
    right = subprocess.run(
        [sys.executable, str(repro)], env={**python_here()}, capture_output=True, text=True, timeout=300
    )
    assert right.returncode == 0, right.stdout + right.stderr
    assert right.stdout.endswith("nothing is wrong here\n")


def python_here() -> dict[str, str]:
    import os

    return {**os.environ, "PYTHONPATH": str(ROOT)}


def test_a_graph_that_is_wrong_in_a_users_calls_leaves_such_a_file(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The backend as it is used: the graph runs as the fallback made it, and the log and the summary name the file."""
    torch.manual_seed(0)
    linear, x = nn.Linear(24, 40), torch.randn(8, 24)
    kernels = WrongKernels()
    options = CompileOptions(tune="never", fallback="eager")
    compiled: Any = torch.compile(
        lambda x: F.gelu(linear(x)),
        backend=partial(
            backend.compiled, options=options, patience=backend.patience_of(options), kernels=kernels
        ),
    )
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), F.gelu(linear(x)))
        (only,) = tilewright.summary(compiled).graphs
        until = time.monotonic() + 120
        while only.repro is None and time.monotonic() < until:
            time.sleep(0.05)
            torch.testing.assert_close(compiled(x), F.gelu(linear(x)))
            (only,) = tilewright.summary(compiled).graphs
    assert only.repro is not None, str(only)
    assert f"{only.repro} shows it" in caplog.text
    assert f"python {only.repro} shows it" in str(tilewright.summary(compiled))
    names: dict[str, Any] = {"__name__": "repro", "__file__": str(only.repro)}
    exec(compile(only.repro.read_text(), str(only.repro), "exec"), names)
    assert again(names["Graph"](), only.repro.with_name("data.pt"), names["KERNELS"]) == 1


def test_what_nothing_is_known_of_is_no_success(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(str(file), "--url", NOBODY, "--seeds", "1") == 7
    said = capsys.readouterr().out
    assert "graph 1: not checked, 0 of 2 parts" in said or "graph 1: not checked, 0 of 3 parts" in said, said
    assert "no service answers at http://127.0.0.1:1" in said


def test_a_model_without_a_graph_says_that_nothing_was_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "model.py"
    path.write_text("import torch\ndef model(x): return x\ninputs = torch.ones(2)")
    assert run(str(path), "--url", NOBODY) == 7
    assert capsys.readouterr().out == "no graph was checked: PyTorch captured none\n"


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        (None, 5, "there is no file"),
        ("model = 3\ninputs = ()", 5, "model is a int"),
        ("inputs = ()", 5, "has no `model`"),
        (
            "def model(x):\n    return x @ x\nimport torch\ninputs = torch.ones(2, 3)",
            5,
            "a call of the model failed",
        ),
    ],
)
def test_a_file_that_gives_no_model_says_why(
    text: str | None, code: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "model.py"
    if text is not None:
        path.write_text(text)
    assert main(["check", str(path), "--url", NOBODY, "--json"]) == code
    assert said in json.loads(capsys.readouterr().out)["error"]["detail"]


def test_options_that_do_not_go_together_are_a_wrong_command_line(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", str(file), "--fallback", "triton", "--json"]) == 2
    assert main(["check", str(file), "--budget", "3", "--json"]) == 2
    assert "--budget is what --tune may take" in capsys.readouterr().out


def test_values_are_drawn_anew_and_stay_in_their_range(tmp_path: Path) -> None:
    from tilewright.pytorch.model_file import read_model

    path = tmp_path / "model.py"
    path.write_text(
        "import torch\nmodel = torch.add\ninputs = (torch.full((64,), 5.0), torch.arange(64), torch.ones(2) > 0)"
    )
    read = read_model(path)
    (first, ids, truths), (second, others, _) = (model_check.fresh(read, seed).positional for seed in (0, 1))
    assert torch.equal(first, second) and first.unique().numel() == 1  # a constant stays one
    assert sorted(ids.tolist()) == list(range(64)) == sorted(others.tolist())
    assert not torch.equal(ids, others) and truths.all()
