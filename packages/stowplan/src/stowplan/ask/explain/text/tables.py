"""Text pages of lines and aligned columns, with optional colors.

Content is built once, as blocks of styled spans. On a terminal, rich renders them in color, wrapped at its width.
Everywhere else they become plain text with a stable layout: no escape codes, no wrapping.

As JSON, pages are built where the cluster is, and rendered where they are read, for that terminal's width and colors.
The input of the decoder is not trusted: anything that is not a valid page is an error. Names and messages come from the
cluster, so control characters are removed, also from what is written: they would move the cursor of a terminal, and a
new line may be a command of a workflow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TextIO

import msgspec

from stowplan.kube.structs import PlainStruct

#: (text, style); styles are the keys of `STYLES`, "" for none.
Span = tuple[str, str]
Cell = str | tuple[Span, ...]

#: The rich markup of each style.
STYLES = {
    "": "",
    "head": "bold",
    "name": "bold cyan",
    "good": "green",
    "best": "bold green",
    "bad": "red",
    "pending": "bold yellow",
    "dim": "dim",
    "bar": "blue",
    "full": "yellow",
}
_GAP = "  "
#: The least useful width of a column that wraps.
_LEAST_WIDTH = 6


class Line(PlainStruct, frozen=True):
    """A single line; an empty one is a separator."""

    text: Cell = ""
    indent: int = 0
    #: The first span is a marker; wrapped lines are indented by its width.
    marked: bool = False


class Grid(PlainStruct, frozen=True):
    """Rows with aligned columns."""

    rows: Sequence[Sequence[Cell]]
    header: Sequence[str] = ()
    #: Right-aligned columns.
    right: frozenset[int] = frozenset()
    indent: int = 2


Block = Line | Grid


def plain(blocks: Sequence[Block]) -> str:
    """The blocks as text."""
    lines: list[str] = []
    for block in blocks:
        if isinstance(block, Line):
            lines.append(" " * block.indent + text_of(block.text))
        else:
            lines += _grid_lines(block)
    return "".join(f"{line.rstrip()}\n" for line in lines)


def text_of(cell: Cell) -> str:
    return cell if isinstance(cell, str) else "".join(text for text, _ in cell)


def _grid_lines(grid: Grid) -> list[str]:
    rows = [[text_of(cell) for cell in row] for row in grid.rows]
    if grid.header:
        rows.insert(0, list(grid.header))
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))] if rows else []
    return [
        " " * grid.indent + _GAP.join(_aligned(cell, widths[i], i in grid.right) for i, cell in enumerate(row))
        for row in rows
    ]


def _aligned(text: str, width: int, right: bool) -> str:
    return text.rjust(width) if right else text.ljust(width)


def write(blocks: Sequence[Block], file: TextIO) -> None:
    """Write with colors to a terminal, otherwise as plain text."""
    blocks = printable(blocks)
    if file.isatty():
        _write_rich(blocks, file)
    else:
        file.write(plain(blocks))


def printable(blocks: Sequence[Block]) -> list[Block]:
    """The blocks without control characters, so that each line is one."""
    return [_block(_sent(block)) for block in blocks]


def _write_rich(blocks: Sequence[Block], file: TextIO) -> None:
    from rich.console import Console
    from rich.padding import Padding

    # rich itself honors NO_COLOR and TERM=dumb.
    console = Console(file=file, highlight=False, emoji=False)
    for block in blocks:
        on = console
        if isinstance(block, Line):
            drawn = _rich_line(block)
        else:
            needed = _fixed_width(block) + _LEAST_WIDTH * (_column_count(block) - len(block.right)) + block.indent
            if needed > console.width:
                # The terminal breaks the lines; rich would crop numbers, and a cropped number is another number.
                on = Console(file=file, highlight=False, emoji=False, width=needed)
            drawn = _rich_table(block, on.width - block.indent)
        on.print(Padding(drawn, (0, 0, 0, block.indent)) if block.indent else drawn)


def _column_count(grid: Grid) -> int:
    return len(grid.rows[0]) if grid.rows else len(grid.header)


def _fixed_width(grid: Grid) -> int:
    """The width of the columns of numbers, which never wrap, and of all gaps."""
    return sum(_column_width(grid, i) for i in grid.right) + len(_GAP) * (_column_count(grid) - 1)


def _column_width(grid: Grid, i: int) -> int:
    return max(len(text_of(row[i])) for row in ([grid.header, *grid.rows] if grid.header else grid.rows))


def not_asked_block(not_asked: Mapping[str, str]) -> list[Block]:
    """The plugins and extenders that a verdict does not include, and why."""
    if not not_asked:
        return []
    head = Line((("Not asked", "head"),))
    return [Line(), head, *(Line(((name, ""), (f": {why}", "dim")), 2) for name, why in not_asked.items())]


def _rich_line(line: Line) -> Any:
    from rich.table import Table

    if not line.marked or isinstance(line.text, str):
        return _rich_text(line.text)
    columns = Table.grid()
    columns.add_column(no_wrap=True)
    columns.add_row(_rich_text(line.text[:1]), _rich_text(line.text[1:]))
    return columns


def _rich_text(cell: Cell) -> Any:
    from rich.text import Text

    if isinstance(cell, str):
        return Text(cell)
    return Text.assemble(*((text, STYLES[style]) for text, style in cell))


def _rich_table(grid: Grid, room: int) -> Any:
    from rich.table import Table

    width = _column_count(grid)
    others = width - len(grid.right | {0})
    names_fit = not grid.rows or _column_width(grid, 0) + _fixed_width(grid) + _LEAST_WIDTH * others <= room

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=bool(grid.header), header_style="dim")
    for i in range(width):
        # Numbers never wrap, names only if there is no room for them; long text is in the last columns.
        table.add_column(
            grid.header[i] if grid.header else "",
            justify="right" if i in grid.right else "left",
            overflow="fold",
            no_wrap=i in grid.right or (i == 0 and names_fit),
        )
    for row in grid.rows:
        table.add_row(*(_rich_text(cell) for cell in row))
    return table


_Sent = str | list[tuple[str, str]]


class PageError(ValueError):
    """The input is not a page; says why."""


class _Line(msgspec.Struct, tag="line", omit_defaults=True):
    text: _Sent = ""
    indent: int = 0
    marked: bool = False


class _Grid(msgspec.Struct, tag="grid", omit_defaults=True):
    rows: list[list[_Sent]] = []
    header: list[str] = []
    right: list[int] = []
    indent: int = 2


_blocks = list[_Line | _Grid]


def page_to_json(blocks: Sequence[Block]) -> list[Any]:
    """The blocks as JSON-able data."""
    found: list[Any] = msgspec.to_builtins([_sent(block) for block in blocks])
    return found


def page_from_json(data: Any) -> list[Block]:
    """The blocks that `page_to_json` encoded; raises PageError."""
    try:
        return [_block(one) for one in msgspec.convert(data, _blocks)]
    except msgspec.ValidationError as error:
        raise PageError(str(error)) from None


def _sent(block: Block) -> _Line | _Grid:
    if isinstance(block, Line):
        return _Line(_sent_cell(block.text), block.indent, block.marked)
    rows = [[_sent_cell(cell) for cell in row] for row in block.rows]
    return _Grid(rows, list(block.header), sorted(block.right), block.indent)


def _sent_cell(cell: Cell) -> _Sent:
    return cell if isinstance(cell, str) else list(cell)


def _block(sent: _Line | _Grid) -> Block:
    if isinstance(sent, _Line):
        return Line(_cell(sent.text), sent.indent, sent.marked)
    if len({len(row) for row in sent.rows}) > 1:
        raise PageError("rows of different lengths")
    rows = [[_cell(cell) for cell in row] for row in sent.rows]
    return Grid(rows, [printable_text(name) for name in sent.header], frozenset(sent.right), sent.indent)


def _cell(sent: _Sent) -> Cell:
    if isinstance(sent, str):
        return printable_text(sent)
    # A newer scheduler may have styles that are unknown here.
    return tuple((printable_text(text), style if style in STYLES else "") for text, style in sent)


def printable_text(text: str) -> str:
    """The text in one line, without control characters."""
    return text if text.isprintable() else "".join(char if char.isprintable() else " " for char in text)
