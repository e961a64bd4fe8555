"""Table cells for notebooks: each says how it is aligned, since Jupyter aligns all cells right."""

from __future__ import annotations

from html import escape

_LEFT = ' style="text-align:left"'
_RIGHT = ' style="text-align:right"'


def text_cell(text: str, *, bold: bool = False) -> str:
    return f"<td{_LEFT}>{f'<b>{escape(text)}</b>' if bold else escape(text)}</td>"


def number_cell(number: int) -> str:
    return f"<td{_RIGHT}>{number:,}</td>"


def text_head(*names: str) -> str:
    return "".join(f"<th{_LEFT}>{escape(name)}</th>" for name in names)


def number_head(*names: str) -> str:
    return "".join(f"<th{_RIGHT}>{escape(name)}</th>" for name in names)
