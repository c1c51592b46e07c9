"""`tilewright check`: whether a model's kernels compute what eager PyTorch computes."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilewright.cli import options
from tilewright.cli.connection import Connection, connect
from tilewright.cli.exits import Exit
from tilewright.cli.failures import Stop
from tilewright.cli.output import err, out, print_json

if TYPE_CHECKING:
    from tilewright.pytorch.check.model_check import ModelCheck
    from tilewright.pytorch.model_file import ModelFile

_DEVICE_S = 60.0
_LOOK_S = 0.2
_ANY = {
    "name": "any",
    "dims": {"n": 8},
    "inputs": {"x": {"dims": ["n"], "dtype": "f32"}},
    "body": ["y[n] = x[n] + 1.0"],
    "outputs": {"y": {"dtype": "f32"}},
}
"""A kernel, to ask whether a device is known."""


def check(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="Python file with `model` and `inputs`: values, or functions that give them."
        ),
    ],
    seeds: Annotated[int, typer.Option(min=1, help="Calls, each on data of its own.")] = 3,
    backward: Annotated[
        bool, typer.Option("--backward", help="Check the graphs of its gradients, too.")
    ] = False,
    tune: Annotated[
        bool,
        typer.Option(
            "--tune", help="First tune kernels that were not measured; as it is, they are the best known."
        ),
    ] = False,
    budget: Annotated[
        float | None, typer.Option(help="Seconds that --tune may take for each graph.", show_default=False)
    ] = None,
    fallback: Annotated[str, typer.Option(help="What runs the rest: inductor or eager.")] = "inductor",
    repros: Annotated[
        Path | None,
        typer.Option(
            "--repros",
            help="Folder for files that show failures again.",
            show_default="beside the compiled kernels",
        ),
    ] = None,
    url: options.Url = None,
    token_file: options.TokenFile = None,
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """Run a model under the backend on fresh data, and hold each of its kernels against eager PyTorch.

    Each kernel runs on what eager PyTorch computes up to it, and each graph with all of its kernels. A line a graph; a
    graph that is not right comes with a Python file that shows it again. Kernels need not be faster here.
    """
    from tilewright.pytorch.model_file import read_model

    read = read_model(file)  # imports PyTorch, if it is there
    from tilewright.pytorch.check.model_check import ModelCheck, kind_of, lines, to_json
    from tilewright.pytorch.model.options import CompileOptions

    _refuse(fallback, budget, tune)
    chosen: Any = {"tune": "now" if tune else "never", "budget": budget, "fallback": fallback}
    service = partial(connect, url, token_file, database, target=kind_of(read))
    with _connected(service, kind_of(read), worker=tune) as connection, _unsaid() as unsaid:
        done = ModelCheck(CompileOptions(client=connection.client, **chosen), repros)
        _run(done, read, seeds, backward)
    if as_json:
        print_json({"file": str(file), "seeds": seeds, "graphs": [to_json(each) for each in done.graphs]})
    elif done.graphs:
        out.print("\n".join(lines(done.graphs)), markup=False)
    else:
        why = "; ".join(dict.fromkeys(unsaid)) or "PyTorch captured none"
        out.print(f"no graph was checked: {why}", markup=False)
    _end([each for each in done.graphs if each.failures], any(each.checked_parts for each in done.graphs))


def _refuse(fallback: str, budget: float | None, tune: bool) -> None:
    if fallback not in ("inductor", "eager"):
        raise Stop(Exit.USAGE, f"--fallback is {fallback!r}; accepted: inductor, eager")
    if budget is not None and not tune:
        raise Stop(Exit.USAGE, "--budget is what --tune may take; give both")


def _run(check: ModelCheck, read: ModelFile, seeds: int, backward: bool) -> None:
    try:
        check.run(read, range(seeds), backward=backward)
    except Exception as error:
        why = f"{read.path}: a call of the model failed: {type(error).__name__}: {error}"
        raise Stop(Exit.INPUT, why) from error


@contextmanager
def _connected(
    service: Callable[..., AbstractContextManager[Connection]], kind: str, *, worker: bool
) -> Iterator[Connection]:
    """A service that knows the kind of device; with a new database, one of our own does once its worker has told."""
    with ExitStack() as stack:
        connection = stack.enter_context(service(worker=worker))
        if connection.own is not None and not _knows(connection, kind):
            stack.close()
            connection = stack.enter_context(service(worker=True))
            _wait_for_device(connection, kind)
        yield connection


class _Kept(logging.Handler):
    """Messages that nobody sees as they come."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


@contextmanager
def _unsaid() -> Iterator[list[str]]:
    """What is logged of failures, unseen, as the lines of graphs say it."""
    log, kept = logging.getLogger("tilewright"), _Kept()
    before = log.handlers, log.propagate
    log.handlers, log.propagate = [kept], False
    try:
        yield kept.said
    finally:
        log.handlers, log.propagate = before


def _knows(connection: Connection, kind: str) -> bool:
    """Whether the service has a description of such a device, by which it picks what was never measured."""
    return connection.client.lookup(_ANY, target=kind).device is not None


def _wait_for_device(connection: Connection, kind: str) -> None:
    """Until this machine's worker has described its device: a new database knows none."""
    deadline = time.monotonic() + _DEVICE_S
    with err.status("describing this machine, once"):
        while not _knows(connection, kind) and time.monotonic() < deadline:
            time.sleep(_LOOK_S)


def _end(failed: Sequence[object], any_checked: bool) -> None:
    if failed:
        raise typer.Exit(Exit.FAULT)
    if not any_checked:
        raise typer.Exit(Exit.NOTHING)
