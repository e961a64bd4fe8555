"""Encode and decode text pages as JSON.

Pages are built where the cluster is, and rendered where they are read, for that terminal's width and colors. The input
of the decoder is not trusted: anything that is not a valid page is an error, and control characters are removed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from stowplan.ask.explain.text.tables import STYLES, Block, Cell, Grid, Line

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    return Grid(rows, [_printable(name) for name in sent.header], frozenset(sent.right), sent.indent)


def _cell(sent: _Sent) -> Cell:
    if isinstance(sent, str):
        return _printable(sent)
    # A newer scheduler may have styles that are unknown here.
    return tuple((_printable(text), style if style in STYLES else "") for text, style in sent)


def _printable(text: str) -> str:
    return text if text.isprintable() else "".join(char if char.isprintable() else " " for char in text)
