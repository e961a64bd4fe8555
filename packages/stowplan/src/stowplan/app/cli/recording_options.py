"""Options shared by commands that write a recording."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import click

from stowplan.app.daemon.recording_file import ALL, KEPT, ROTATE_AT

_OPTIONS = (
    click.option(
        "--record-annotation",
        "record_annotations",
        metavar="KEY",
        multiple=True,
        help=f"Also record this annotation, or {ALL}. Default: only those that plugins read. Repeatable.",
    ),
    click.option(
        "--record-max-size",
        type=click.IntRange(0),
        default=ROTATE_AT >> 20,
        show_default=True,
        metavar="MIB",
        help="Rotate the file at this size; 0 means never.",
    ),
    click.option(
        "--record-keep",
        type=click.IntRange(0),
        default=KEPT,
        show_default=True,
        metavar="N",
        help="Keep this many older files; 0 means all.",
    ),
)


def recording_options() -> Callable[[Callable[..., Any]], Any]:
    """Options whose values are keywords of `opened_recording`."""
    return lambda command: reduce(lambda made, option: option(made), reversed(_OPTIONS), command)
