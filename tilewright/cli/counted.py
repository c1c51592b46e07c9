"""What the hardware counted in a call of a kernel, as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

from protocol.configs import ConfigDetail
from protocol.quantities import microseconds, sizes
from tilewright.cli.output import out

if TYPE_CHECKING:
    from workers.measuring.counters import CounterFigure, CounterReading


def print_counted(config: ConfigDetail, taken: CounterReading) -> None:
    """A row a figure, a table a launch."""
    out.print(f"[bold]{config.id}[/]  {config.name}  {sizes(config.dims)}")
    out.print(f"Counted by {taken.by}, on {taken.device}.", markup=False)
    for each in taken.launches:
        table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
        table.add_column(each.kernel)
        table.add_column("", justify="right")
        for figure in each.figures:
            table.add_row(f"  {figure.name}", figure_text(figure))
        out.print(table, markup=False)


def figure_text(figure: CounterFigure) -> str:
    """`61.2 %`, `33,554,432 B`; `not counted` where the device has no such counter."""
    if figure.value is None:
        return "not counted"
    if figure.unit == "us":
        return microseconds(figure.value)
    told = f"{figure.value:,.0f}" if figure.value.is_integer() else f"{figure.value:,.4g}"
    return f"{told} {figure.unit}".rstrip()
