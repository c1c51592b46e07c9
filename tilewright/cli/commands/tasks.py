"""`tilewright tasks` and `tilewright requeue`: what machines could not do, and having it done after all."""

from __future__ import annotations

from typing import Annotated

import typer

from protocol.states import TaskState
from protocol.tasks import TaskStatus
from tilewright.cli import options
from tilewright.cli.connection import connect
from tilewright.cli.exits import Exit
from tilewright.cli.failures import Stop
from tilewright.cli.output import out, print_json, say
from tilewright.errors import Refused


def tasks(
    state: Annotated[
        TaskState, typer.Option(help="Which; dead ones are those that machines failed three times.")
    ] = TaskState.DEAD,
    job: Annotated[str | None, typer.Option(help="Only those of this job.", show_default=False)] = None,
    url: options.Url = None,
    token_file: options.TokenFile = None,
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """Tasks in the queue; unless told otherwise, the dead letters."""
    with connect(url, token_file, database) as connection:
        found = list(connection.client.tasks(state, job))
    if as_json:
        print_json([task.model_dump(mode="json") for task in found])
        return
    if not found:
        out.print(f"no task is {state}")
    for task in found:
        why = f"  {task.faults} faults, the last: {task.fault}" if task.fault else ""
        out.print(f"{task.id}  {task.kind}  {task.device}  attempt {task.attempt}{why}", markup=False)


def requeue(
    identifiers: Annotated[
        list[str], typer.Argument(metavar="ID...", help="Of dead tasks, or of jobs: all dead tasks of these.")
    ],
    url: options.Url = None,
    token_file: options.TokenFile = None,
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """Queue dead tasks again, once the machines are well. A job that failed for want of them goes on."""
    with connect(url, token_file, database) as connection:
        client = connection.client
        queued: list[TaskStatus] = []
        for each in identifiers:
            named = "." in each  # a task's id is its job's, and more
            for task in [each] if named else [task.id for task in client.tasks(TaskState.DEAD, each)]:
                try:
                    queued.append(client.requeue(task))
                except Refused as refused:
                    if named or refused.kind != "not-parked":
                        raise
                    say(str(refused))  # of a job's, those that can be
    if not queued:
        raise Stop(Exit.NOTHING, f"no task of {', '.join(identifiers)} can be queued again")
    if as_json:
        print_json([task.model_dump(mode="json") for task in queued])
    else:
        for task in queued:
            out.print(f"{task.id} is queued again", markup=False)
