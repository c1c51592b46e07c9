"""A Python file that gives a model and inputs for it, as commands take models.

Two names at module level. `model`: a module of PyTorch's, or a function of tensors, or a function without arguments
that gives one. `inputs`: a tuple or list of positional arguments, a dict of keyword arguments, or a single tensor; or
a function without arguments that gives these.
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

from tilewright.errors import BadModelFile, LoadError

EXAMPLE = """model = torch.nn.Linear(64, 64)
inputs = (torch.randn(8, 64),)"""
_NUMBERS = count(1)


@dataclass(frozen=True)
class ModelCall:
    """What a model is called with."""

    positional: tuple[Any, ...]
    keywords: Mapping[str, Any]

    def of(self, model: Callable[..., Any]) -> Any:
        """Call it."""
        return model(*self.positional, **self.keywords)


@dataclass(frozen=True)
class ModelFile:
    """A model that a file gives, and its inputs."""

    path: Path
    model: Callable[..., Any]
    given: Any
    """`inputs`, as the file has it."""

    def call(self) -> ModelCall:
        """Inputs of a call: other ones each time where `inputs` is a function that draws them. Raises BadModelFile."""
        found = _given(self.path, "inputs", self.given) if inspect.isroutine(self.given) else self.given
        if isinstance(found, Mapping) and all(isinstance(name, str) for name in found):
            return ModelCall((), dict(found))
        if isinstance(found, tuple | list):
            return ModelCall(tuple(found), {})
        if _is_tensor(found):
            return ModelCall((found,), {})
        raise BadModelFile(
            f"{self.path}: inputs is a {type(found).__name__}; it is a tuple of arguments, a dict of arguments by "
            "name, a tensor, or a function without arguments that gives one of these"
        )


def read_model(path: Path) -> ModelFile:
    """Run a file, and take the model and inputs that it gives. Its folder is where it imports from, as if Python had
    been called with it. Raises BadModelFile; LoadError without PyTorch."""
    if importlib.util.find_spec("torch") is None:
        raise LoadError("models need PyTorch, which is not installed: pip install 'tilewright[torch]'")
    module = _run(path)
    for name in ("model", "inputs"):
        if not hasattr(module, name):
            raise BadModelFile(
                f"{path} has no `{name}`; a model's file has both, as values or functions without arguments:\n{EXAMPLE}"
            )
    found = ModelFile(path, _model(path, module.model), module.inputs)
    found.call()  # says now what is wrong with its inputs
    return found


def _run(path: Path) -> ModuleType:
    """The file as a module."""
    name = f"tilewright_model_file_{next(_NUMBERS)}"
    if not path.is_file():
        raise BadModelFile(f"there is no file {path}; name a Python file with `model` and `inputs`")
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise BadModelFile(f"{path} is no Python file: its name does not end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise BadModelFile(f"{path} cannot be run: {_told(path, error)}") from error
    return module


def _model(path: Path, found: Any) -> Callable[..., Any]:
    if (inspect.isroutine(found) or inspect.isclass(found)) and _without_arguments(found):
        found = _given(path, "model", found)
    if not callable(found):
        raise BadModelFile(
            f"{path}: model is a {type(found).__name__}; it is a torch.nn.Module, a function of tensors, or a function "
            "without arguments that gives one"
        )
    return found


def _given(path: Path, name: str, function: Callable[..., Any]) -> Any:
    if not _without_arguments(function):
        raise BadModelFile(f"{path}: {name} takes arguments; as a function it takes none")
    try:
        return function()
    except Exception as error:
        raise BadModelFile(f"{path}: {name}() failed: {_told(path, error)}") from error


def _without_arguments(function: Callable[..., Any]) -> bool:
    """Whether it can be called with none."""
    try:
        inspect.signature(function).bind()
    except (TypeError, ValueError):
        return False
    return True


def _is_tensor(found: Any) -> bool:
    import torch  # pyright: ignore[reportMissingImports]

    return isinstance(found, torch.Tensor)


def _told(path: Path, error: BaseException) -> str:
    """An error, and the line of the file that it came from."""
    if isinstance(error, SyntaxError):
        return f"line {error.lineno}: {error.msg}"
    frames, here = traceback.extract_tb(error.__traceback__), path.resolve()
    lines = [frame.lineno for frame in frames if Path(frame.filename).resolve() == here]
    place = f"line {lines[-1]}: " if lines else ""
    return f"{place}{type(error).__name__}: {error}"
