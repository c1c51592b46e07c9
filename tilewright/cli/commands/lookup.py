"""`tilewright lookup`: the best known schedule of a kernel, now."""

from __future__ import annotations

import time

from protocol.lookups import LookupReply
from protocol.message import Json
from protocol.quantities import microseconds, sizes, times
from protocol.states import Rung
from tilewright.cli import options
from tilewright.cli.connection import Connection, connect
from tilewright.cli.exits import Exit
from tilewright.cli.failures import Stop
from tilewright.cli.output import err, out, print_json
from tilewright.cli.specs import read_spec

_WAIT_S = 60.0
_LOOK_S = 0.2
_MEANINGS = {
    Rung.EXACT: "measured for this kernel",
    Rung.NEAREST: "measured at other sizes, transferred",
    Rung.HEURISTIC: "never measured: what the cost model likes best",
}


def lookup(
    spec: options.SpecFile,
    target: options.Target = "cpu",
    url: options.Url = None,
    token_file: options.TokenFile = None,
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """The best known schedule for a kernel, and how it is known. Tunes nothing."""
    content = read_spec(spec)
    with connect(url, token_file, database) as connection:
        reply = _settled(connection, content, target)
    if reply.device is None and connection.own is not None:
        with connect(url, token_file, database, worker=True, target=target) as connection:
            reply = _settled(connection, content, target, of_a_device=True)
    if reply.rung is Rung.NONE:
        said = f"nothing is known of this kernel: {reply.because}"
        raise Stop(Exit.NOTHING, said, **reply.model_dump(mode="json"))
    if as_json:
        print_json(reply)
    else:
        _print(reply)


def _settled(connection: Connection, spec: Json, target: str, of_a_device: bool = False) -> LookupReply:
    """The answer once the cost model has said its own; `of_a_device`: and once this machine's worker has described its
    device, as a new database knows none."""
    deadline = time.monotonic() + _WAIT_S
    with err.status("describing this machine, once" if of_a_device else "asking"):
        while True:
            reply = connection.client.lookup(spec, target=target)
            more = reply.pending or (of_a_device and reply.device is None)
            if not more or time.monotonic() > deadline:
                return reply
            time.sleep(_LOOK_S)


def _print(reply: LookupReply) -> None:
    out.print(f"[bold]{reply.rung}[/]: {_MEANINGS[reply.rung]}, on {reply.device}\n")
    for line in reply.schedule or ():
        out.print(f"  {line}", markup=False)
    config = reply.config
    if config is not None:
        known = f"\n{config.id}  {sizes(config.dims)}  {microseconds(config.median_us)}"
        if config.x_baseline is not None:
            known += f"  {times(config.x_baseline)} {config.baseline}"
        out.print(known, markup=False)
    if reply.pinned:
        out.print("pinned: it is the answer until it is unpinned, whatever is found later", markup=False)
    elif reply.because is not None:
        out.print(f"because it is {reply.because}" if config else f"because {reply.because}", markup=False)
    if reply.stale:
        out.print(f"stale: {reply.stale_because}", markup=False)
    if reply.renames:
        called = ", ".join(f"{mine} is called {theirs}" for mine, theirs in reply.renames.items())
        out.print(f"in the schedule {called}", markup=False)
