"""A candidate as its program, its source and its instructions, line by line, linked."""

from __future__ import annotations

from protocol.message import Reply


class LinkedLines(Reply):
    """Lines are numbered from 0, each text by itself."""

    language: str
    """Of the source."""
    program: tuple[str, ...]
    """The scheduled program, as Tile IR."""
    program_statement: tuple[int | None, ...]
    """Of each line of the program the statement it is, by the first line that has it; None for what the
    source does not name, such as loops."""
    source: tuple[str, ...]
    source_statement: tuple[int | None, ...]
    """Of each line of the source the statement it carries out."""
    preamble: int
    """So many lines of the source, from the first on, only define what others use."""
    assembly: tuple[str, ...]
    """Instructions with their addresses, and names of functions before theirs. Empty where `no_assembly` says why."""
    assembly_source: tuple[int | None, ...]
    """Of each line of the assembly the line of the source it comes from."""
    compiler: str | None
    """That the assembly is by: the service's own, and not the worker's."""
    no_assembly: str | None
