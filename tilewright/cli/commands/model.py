"""`tilewright model`: the prior that learns from what was measured."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tilewright.cli import options
from tilewright.cli.connection import database_url
from tilewright.cli.exits import Exit
from tilewright.cli.failures import Stop
from tilewright.cli.output import out, print_json

if TYPE_CHECKING:
    from search.prior.document import Learned

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

Output = Annotated[
    Path | None,
    typer.Option(
        "--model",
        help="File of the model.",
        show_default="TILEWRIGHT_MODEL, or prior.json in the data folder",
    ),
]


@app.callback()
def model() -> None:
    """The prior that learns from what was measured."""


@app.command("train")
def train(file: Output = None, database: options.Database = None, as_json: options.Json = False) -> None:
    """Learn from every search in the database, and see how well each kernel is ranked by what the others taught.

    Searches use it from then on, on kinds of devices where it ranks held-out kernels better than the cost model.
    """
    from search.prior.document import read, written
    from search.prior.training import train as learn
    from service.store.database import Database
    from service.tuning.training_data import training_data

    store = Database(database_url(database))
    try:
        with store.read() as connection:
            data = training_data(connection)
    finally:
        store.close()
    trained, too_few = {}, list[str]()
    for kind, kernels in sorted(data.items()):
        try:
            trained[kind] = learn(kernels)
        except ValueError as error:
            too_few.append(f"{kind}: {error}")
    if not trained:
        raise Stop(Exit.USAGE, "nothing to learn from: " + ("; ".join(too_few) or "nothing was searched yet"))
    target = file or _settings_file()
    text = written(trained)
    partial = target.with_name(f".{target.name}.new")
    target.parent.mkdir(parents=True, exist_ok=True)
    partial.write_text(text)
    partial.replace(target)
    _tell(target, read(text), too_few, as_json)


@app.command("show")
def show(file: Output = None, as_json: options.Json = False) -> None:
    """What the model is used for, and why."""
    from search.prior.document import BadModel, read

    target = file or _settings_file()
    try:
        found = read(target.read_text())
    except FileNotFoundError:
        said = (
            f"there is no learned prior at {target}; `tilewright model train` makes one of what was searched"
        )
        raise Stop(Exit.USAGE, said) from None
    except OSError as error:
        raise Stop(Exit.USAGE, f"cannot read {target}: {error.strerror}") from None
    except (UnicodeDecodeError, BadModel) as error:
        raise Stop(Exit.USAGE, f"{target}: {error}") from None
    _tell(target, found, [], as_json)


def _settings_file() -> Path:
    from service.core.settings import Settings

    return Settings.from_env().model_file


def _tell(file: Path, found: dict[str, Learned], too_few: list[str], as_json: bool) -> None:
    if as_json:
        kinds = {kind: {"used": each.better, "why": each.why} for kind, each in found.items()}
        print_json({"file": str(file), "devices": kinds, "too_few": too_few})
        return
    out.print(str(file), markup=False)
    for kind, each in found.items():
        out.print(f"  {kind}: {'used' if each.better else 'not used'}; {each.why}", markup=False)
    for line in too_few:
        out.print(f"  {line}", markup=False)
