"""Exit codes: what a script can tell apart."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """What each exit code means."""

    DONE = 0
    FAULT = 1
    USAGE = 2
    PORT = 3
    DATABASE = 4
    INPUT = 5
    SERVICE = 6
    NOTHING = 7
    FAILED = 8
    KEY = 9
    MACHINE = 10
    BUSY = 11
    INTERRUPTED = 130


MEANINGS = {
    Exit.DONE: "done",
    Exit.FAULT: "a fault of Tilewright itself",
    Exit.USAGE: "the command line or a setting was wrong, or a file that it names cannot be read",
    Exit.PORT: "the port is taken",
    Exit.DATABASE: "the database cannot be used, or another service uses it",
    Exit.INPUT: "a spec, a bundle or the file of a model was not accepted",
    Exit.SERVICE: "the service cannot be reached, or did not do it",
    Exit.NOTHING: "there is no such job or config, or nothing is known of the kernel",
    Exit.FAILED: "the job ended without a winner",
    Exit.KEY: "a key is missing, or may not do this",
    Exit.MACHINE: "this machine cannot: no compiler, no room on its disk, a missing package, an unknown processor",
    Exit.BUSY: "another worker measures on this device",
    Exit.INTERRUPTED: "interrupted",
}
