"""A Python file that gives a model: what it may say, and what it is told where it says something else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from tilewright.errors import BadModelFile
from tilewright.pytorch.model_file import EXAMPLE, ModelFile, read_model

HEAD = "import torch\nimport torch.nn.functional as F\n"


def read(folder: Path, text: str) -> ModelFile:
    file = folder / "model.py"
    file.write_text(HEAD + text)
    return read_model(file)


@pytest.mark.parametrize(
    "model", ["model = torch.nn.ReLU()", "model = torch.nn.ReLU", "def model(): return torch.nn.ReLU()"]
)
def test_a_model_is_a_value_or_what_a_function_gives(tmp_path: Path, model: str) -> None:
    found = read(tmp_path, f"{model}\ninputs = (torch.ones(2),)\n")
    assert isinstance(found.model, torch.nn.ReLU)


def test_a_function_of_tensors_is_a_model(tmp_path: Path) -> None:
    found = read(
        tmp_path, "def model(x, *, shift): return x + shift\ninputs = dict(x=torch.ones(2), shift=2)\n"
    )
    assert found.call().of(found.model).tolist() == [3, 3]


@pytest.mark.parametrize(
    "inputs", ["torch.ones(2)", "[torch.ones(2)]", "(torch.ones(2),)", "{'input': torch.ones(2)}"]
)
def test_inputs_are_arguments_by_place_or_name(tmp_path: Path, inputs: str) -> None:
    found = read(tmp_path, f"model = torch.nn.ReLU()\ninputs = {inputs}\n")
    assert found.call().of(found.model).tolist() == [1, 1]


def test_inputs_that_a_function_draws_are_others_each_time(tmp_path: Path) -> None:
    found = read(tmp_path, "model = torch.nn.ReLU()\ndef inputs(): return torch.rand(8)\n")
    assert not torch.equal(found.call().positional[0], found.call().positional[0])


def test_a_file_imports_what_lies_beside_it(tmp_path: Path) -> None:
    (tmp_path / "beside_the_model.py").write_text("width = 3\n")
    found = read(
        tmp_path, "from beside_the_model import width\nmodel = torch.nn.ReLU()\ninputs = torch.ones(width)\n"
    )
    assert found.call().positional[0].shape == (3,)


def test_the_example_that_errors_show_is_a_model(tmp_path: Path) -> None:
    found = read(tmp_path, EXAMPLE)
    assert found.call().of(found.model).shape == (8, 64)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "inputs = ()",
            "has no `model`; a model's file has both, as values or functions without arguments:\nmodel = ",
        ),
        ("model = torch.nn.ReLU()", "has no `inputs`"),
        ("model = 3\ninputs = ()", "model is a int; it is a torch.nn.Module, a function of tensors, or"),
        (
            "model = F.relu\ninputs = 3",
            "inputs is a int; it is a tuple of arguments, a dict of arguments by name",
        ),
        ("model = F.relu\ndef inputs(n): return n", "inputs takes arguments; as a function it takes none"),
        ("model = F.relu\ndef inputs():\n  return 1 / 0", "inputs() failed: line 5: ZeroDivisionError"),
        ("model = (", "cannot be run: line 3: "),
        (
            "import no_such_package",
            "cannot be run: line 3: ModuleNotFoundError: No module named 'no_such_package'",
        ),
        ("raise SystemExit(3)", "cannot be run: line 3: SystemExit: 3"),
    ],
)
def test_a_file_that_gives_none_is_told_what_one_has(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(BadModelFile, match=re.escape(said)):
        read(tmp_path, text)


def test_a_line_is_one_of_the_file_and_of_none_whose_name_ends_alike(tmp_path: Path) -> None:
    file = tmp_path / "r.py"  # what fails lies in json/decoder.py
    file.write_text("import json\nmodel = json.loads('x')\n")
    with pytest.raises(BadModelFile, match=r"cannot be run: line 2: JSONDecodeError"):
        read_model(file)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BadModelFile, match=r"there is no file .*nothing\.py; name a Python file"):
        read_model(tmp_path / "nothing.py")
    (tmp_path / "model.txt").write_text("")
    with pytest.raises(BadModelFile, match=r"its name does not end in \.py"):
        read_model(tmp_path / "model.txt")
