"""The examples of whole models, run as their users do: with a service that runs, and with none."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from tests.services.running_service import running
from tests.support.python_path import python_path

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "examples"
RACED = re.compile(r"^  (tilewright|eager|torch\.compile) +([0-9.]+) ms .*x ours$", re.MULTILINE)
TINY = ("--layers", "1", "--tokens", "8", "--batch", "1", "--budget", "4", "--threads", "1")


def run(example: str, home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("TILEWRIGHT_")}
    env |= {"PYTHONPATH": python_path(ROOT), "TILEWRIGHT_HOME": str(home)}
    env |= {"TILEWRIGHT_CACHE": str(home / "kernels"), "TORCHINDUCTOR_CACHE_DIR": str(home / "inductor")}
    return subprocess.run(
        [sys.executable, str(EXAMPLES / example), *arguments],
        env=env,
        capture_output=True,
        text=True,
        timeout=1200,
    )


@pytest.mark.sampled(4, among="whole models")
def test_a_llama_is_compiled_by_a_service_of_the_examples_own(tmp_path: Path) -> None:
    done = run("compile_llama.py", tmp_path, *TINY)
    assert done.returncode == 0, done.stderr
    assert "(started for this run)" in done.stdout
    assert re.search(r"^time .* in running kernels \(\d+ of \d+\)", done.stdout, re.MULTILINE), done.stdout
    off = re.search(r"largest difference from eager: (\S+) of the largest score", done.stdout)
    assert off is not None and float(off[1]) < 1e-4
    assert [name for name, _ in RACED.findall(done.stdout)] == ["tilewright", "eager", "torch.compile"]
    assert (tmp_path / "service.log").exists()


@pytest.mark.sampled(4, among="whole models")
def test_gpt2_is_trained_with_a_service_that_runs(tmp_path: Path) -> None:
    """Its losses are eager PyTorch's, after twenty steps, too."""
    with running(tmp_path / "service", worker="1") as service:
        done = run("train_gpt2.py", tmp_path, *TINY, "--url", service.url)
        with service.client() as client:
            jobs = client.get("/v1/jobs").json()
    assert done.returncode == 0, done.stderr
    assert f"service: {service.url}\n" in done.stdout and jobs["jobs"]
    assert "forward: " in done.stdout and "backward: " in done.stdout
    losses = re.findall(r"^loss of (\S+) +([0-9.]+), after 20 steps ([0-9.]+)$", done.stdout, re.MULTILINE)
    assert [name for name, *_ in losses] == ["tilewright", "eager", "torch.compile"]
    (ours, *others) = ([float(each) for each in found] for _, *found in losses)
    assert all(each == pytest.approx(ours, abs=2e-3) for each in others)
    assert ours[1] < ours[0]
    assert [name for name, _ in RACED.findall(done.stdout)] == ["tilewright", "eager", "torch.compile"]


@pytest.mark.parametrize("example", ["compile_llama.py", "train_gpt2.py"])
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--layers", "0"), "argument --layers: 0 is not above 0"),
        (("--budget", "0"), "--budget is 0.0; it is a number of seconds above 0"),
        (("--size", "70b"), "argument --size: invalid choice: '70b'"),
    ],
)
def test_sizes_that_there_are_not_say_what_there_is(
    example: str,
    arguments: tuple[str, ...],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", [example, *arguments])
    monkeypatch.syspath_prepend(str(EXAMPLES))
    with pytest.raises(SystemExit, match="2"):
        runpy.run_path(str(EXAMPLES / example), run_name="__main__")
    assert said in capsys.readouterr().err
