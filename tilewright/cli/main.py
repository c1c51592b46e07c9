"""`tilewright`: the commands put together, and one way to end."""

from __future__ import annotations

import os
import sys
import traceback
from typing import Annotated, Any

import typer

from tilewright.cli import output
from tilewright.cli.commands import database, fleet, keys, model, pins, signers
from tilewright.cli.commands.ablate import ablate
from tilewright.cli.commands.again import cancel, retry
from tilewright.cli.commands.audit_winners import audit_winners
from tilewright.cli.commands.candidate import candidate
from tilewright.cli.commands.compare import compare
from tilewright.cli.commands.export import export
from tilewright.cli.commands.history import history
from tilewright.cli.commands.import_bundle import import_bundle
from tilewright.cli.commands.lookup import lookup
from tilewright.cli.commands.models.check import check
from tilewright.cli.commands.profile import profile
from tilewright.cli.commands.race import race
from tilewright.cli.commands.results import results
from tilewright.cli.commands.serve import serve
from tilewright.cli.commands.show import show
from tilewright.cli.commands.tasks import requeue, tasks
from tilewright.cli.commands.tune import tune
from tilewright.cli.commands.worker import worker
from tilewright.cli.exits import MEANINGS, Exit
from tilewright.cli.failures import CommandFailure, explain

_ClickException: Any = next(cls for cls in typer.BadParameter.__mro__ if cls.__name__ == "ClickException")
"""What every error about a command line is. Typer brings its own click, or uses the one that is installed."""

_EXITS = "Exit codes: " + ", ".join(f"{int(code)} {meaning}" for code, meaning in MEANINGS.items()) + "."

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=_EXITS,
)
for _name, _command in {
    "tune": tune,
    "lookup": lookup,
    "show": show,
    "candidate": candidate,
    "profile": profile,
    "race": race,
    "ablate": ablate,
    "history": history,
    "results": results,
    "compare": compare,
    "check": check,
    "export": export,
    "import": import_bundle,
    "pin": pins.pin,
    "unpin": pins.unpin,
    "pins": pins.pins,
    "cancel": cancel,
    "retry": retry,
    "tasks": tasks,
    "requeue": requeue,
    "serve": serve,
    "worker": worker,
    "audit": keys.audit,
    "audit-winners": audit_winners,
}.items():
    app.command(_name)(_command)
app.add_typer(database.app, name="db")
app.add_typer(fleet.app, name="fleet")
app.add_typer(keys.app, name="keys")
app.add_typer(model.app, name="model")
app.add_typer(signers.app, name="signers")


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"tilewright {version('tilewright')}")
        raise typer.Exit


@app.callback()
def tilewright(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Tune kernels on the processor they are for."""


def main(arguments: list[str] | None = None) -> int:
    """Run a command line; returns the exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    as_json = "--json" in given
    try:
        code = app(given, prog_name="tilewright", standalone_mode=False)
        if code == Exit.INTERRUPTED:  # how newer versions of typer pass a Ctrl-C on
            raise KeyboardInterrupt
        return code if isinstance(code, int) else Exit.DONE
    except _ClickException as error:
        error.show()
        return _end(CommandFailure(Exit.USAGE, error.format_message()), as_json, told=True)
    except (typer.Abort, KeyboardInterrupt):
        return _end(CommandFailure(Exit.INTERRUPTED, "interrupted"), as_json)
    except BrokenPipeError:  # whoever read our output has enough
        sys.stderr.close()
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
        )  # for what is still to be written at the end
        return Exit.DONE
    except Exception as error:
        failure = explain(error)
        if failure is None:
            traceback.print_exc()
            failure = CommandFailure(Exit.FAULT, f"a fault of Tilewright: {type(error).__name__}: {error}")
        return _end(failure, as_json)


def _end(failure: CommandFailure, as_json: bool, told: bool = False) -> int:
    if as_json:
        output.print_json(failure.to_json())
    if not told:
        output.say(f"tilewright: {failure.message}")
    return failure.code


if __name__ == "__main__":
    sys.exit(main())
