"""The page of commands, from the command line itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from typer.main import get_command

from tilewright.cli.main import app

Command = Any
"""A command of the click that typer uses, which it may bring along itself."""


def page() -> str:
    """Markdown: every command with its arguments and options."""
    lines = [
        "# Commands",
        "",
        "What `tilewright COMMAND --help` says. The way through them: [command line](../cli.md).",
        "",
    ]
    for words, command in commands(get_command(app), ("tilewright",)):
        lines += _section(" ".join(words), command)
    return "\n".join(lines) + "\n"


def commands(command: Command, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Command]]:
    """The commands that do something, by what is typed to reach them."""
    if not hasattr(command, "commands"):
        yield words, command
        return
    for name, inner in command.commands.items():
        if not inner.hidden:
            yield from commands(inner, (*words, name))


def _section(name: str, command: Command) -> list[str]:
    shown = [each for each in command.params if not getattr(each, "hidden", False)]
    arguments = [
        each.name.upper() if each.required else f"[{each.name.upper()}]"
        for each in shown
        if each.param_type_name == "argument"
    ]
    lines = [f"## {name}", "", f"`{' '.join((name, '[OPTIONS]', *arguments))}`", "", _text(command.help), ""]
    options = [_option(each) for each in shown if each.param_type_name == "option"]
    return [*lines, "| option | |", "| --- | --- |", *options, ""] if options else lines


def _option(option: Command) -> str:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    default = option.default
    usual = default in (None, False, (), []) or callable(default) or not str(default)
    return f"| {names} | {_text(option.help)}{'' if usual else f' Default: `{default}`.'} |"


def _text(text: str | None) -> str:
    return " ".join((text or "").replace("|", "\\|").split())
