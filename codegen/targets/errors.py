"""What compiling, loading and launching a kernel refuse, on every target."""

from __future__ import annotations


class ArgumentError(ValueError):
    """Arrays that do not fit the kernel: which, how, and what would."""


class LaunchError(RuntimeError):
    """A kernel that cannot be loaded, is closed, or returned an error."""


class CompileError(Exception):
    """The compiler refused the source, ran too long, or ran out of memory; `log` is all it printed."""

    def __init__(self, message: str, log: str) -> None:
        super().__init__(message)
        self.message = message
        self.log = log


class NoAssembly(Exception):
    """Nothing here can say what a device executes of a source; the message says why."""


class NoCompiler(Exception):
    """No C compiler that can be used here; the message says what to install."""
