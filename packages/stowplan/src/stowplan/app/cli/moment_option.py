"""The `--at` option of commands that query a recording."""

from __future__ import annotations

import click

from stowplan.history.recordings.replaying import parse_moment


def moment_from_option(text: str | None) -> float | None:
    """Seconds since the epoch; None without the option."""
    if text is None:
        return None
    try:
        return parse_moment(text)
    except (ValueError, OverflowError) as error:
        raise click.UsageError(
            f"--at {text}: want a time as 2026-11-20T12:03 or 2026-11-20T12:03:04.5+01:00."
        ) from error
