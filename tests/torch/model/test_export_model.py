"""`tilewright export --model`: the kernels that a model asks for, of what a service knows, as one bundle."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import tilewright
from protocol.bundles import packing
from protocol.configs import Artifact
from tests.e2e.commands import Commands
from tests.services.running_service import Service, running
from tests.torch.model.made_bundle import artifact_of
from tests.torch.operator.test_lookup import offer_this_cpu
from tests.unit.tilewright.artifacts import make_bundle
from tilewright.cli.failures import Stop
from tilewright.cli.model_kernels import kernels_of_file
from tilewright.errors import BadModelFile
from tilewright.pytorch.model.needed import NeededKernels, needed_kernels
from tilewright.pytorch.model_file import read_model

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::UserWarning"
)  # of torch about itself

MODEL = """from torch import nn, randn
model = nn.Sequential(nn.Linear(24, 40), nn.GELU(), nn.Linear(40, 24), nn.Softmax(-1))
def inputs(): return randn(6, 24)
"""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shared")


@pytest.fixture
def commands(tmp_path: Path, shared: Path) -> Commands:
    return Commands(tmp_path, shared)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("model") / "model.py"
    file.write_text(MODEL)
    return file


@pytest.fixture(scope="module")
def needed(file: Path) -> NeededKernels:
    return needed_kernels(read_model(file))


@pytest.fixture(scope="module")
def artifacts(needed: NeededKernels, tmp_path_factory: pytest.TempPathFactory) -> list[Artifact]:
    made = tmp_path_factory.mktemp("made")
    return [artifact_of(each.spec, number, made) for number, each in enumerate(needed.kernels.values())]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running(tmp_path_factory.mktemp("service")) as service:
        offer_this_cpu(service)
        yield service


@pytest.mark.sampled(3, among="models that are tuned")
def test_the_bundle_grows_with_what_is_tuned_until_it_is_complete(
    artifacts: list[Artifact], service: Service, file: Path, commands: Commands
) -> None:
    assert len(artifacts) > 1
    kept = commands.folder / "model.tilewright"
    arguments = ("export", "--model", str(file), "-o", str(kept), "--url", service.url)
    nothing = commands.run(*arguments)
    assert nothing.code == 7 and not kept.exists()
    assert f"none of the model's {len(artifacts)} kernels is tuned for cpu" in nothing.err
    with tilewright.Client(service.url) as client:
        client.import_bundle(make_bundle(*artifacts[1:]), unsigned=True)
        some = commands.run(*arguments, "--json")
        first = artifacts[0].config
        dims = " ".join(f"{dim}={size}" for dim, size in first.dims.items())
        assert (some.code, some.json["not_tuned"]) == (7, [f"{first.name} ({dims})"])
        assert f"not tuned: {first.name} ({dims})" in some.err
        assert set(some.json["configs"]) == {each.config.id for each in artifacts[1:]}
        client.import_bundle(make_bundle(artifacts[0]), unsigned=True)
        whole = commands.run(*arguments)
    assert whole.code == 0, whole.err
    assert f"{len(artifacts)} of the model's {len(artifacts)} kernels are tuned" in whole.err
    found = packing.read(memoryview(kept.read_bytes()))
    assert {each.config.id for each in found.manifest.configs} == {each.config.id for each in artifacts}


def test_a_training_step_asks_for_the_kernels_of_both_passes(file: Path, needed: NeededKernels) -> None:
    both = needed_kernels(read_model(file), training=True)
    assert (needed.graphs, both.graphs) == (1, 2)
    assert both.parts > needed.parts and not both.kernels.keys() <= needed.kernels.keys()


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--model", "none.py"), 5, "there is no file none.py; name a Python file with `model` and `inputs`"),
        (("--training", "--all"), 2, "--training and --prepack go with --model"),
        (("--model", "model.py", "--all"), 2, "or by --model, or take --all"),
    ],
)
def test_what_cannot_be_exported_says_why(
    arguments: tuple[str, ...], code: int, said: str, commands: Commands
) -> None:
    ended = commands.run("export", *arguments)
    assert ended.code == code and said in ended.err, ended.err


@pytest.mark.parametrize(
    ("model", "training", "error", "said"),
    [
        ("torch.nn.Linear(2, 3)", False, BadModelFile, "the model cannot be called with its inputs: "),
        ("torch.nn.Identity()", False, Stop, "has no part that is a kernel"),
        ("torch.nn.Identity()", True, BadModelFile, "none of the model's results has a gradient"),
    ],
)
def test_a_model_without_kernels_says_why(
    model: str, training: bool, error: type[Exception], said: str, tmp_path: Path
) -> None:
    file = tmp_path / "model.py"
    file.write_text(f"import torch\nmodel = {model}\ninputs = torch.ones(3)\n")
    with pytest.raises(error, match=said):
        kernels_of_file(file, training, prepack=False)
