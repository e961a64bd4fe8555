"""The options `--recording` and `--at` of commands that ask about a moment of a recording."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click

from stowplan.app.cli.shell_completion import file_option


def moment_from_option(text: str | None) -> float | None:
    """Seconds since the epoch; None without the option."""
    if text is None:
        return None
    # Slow to import, and not needed for the help.
    from stowplan.history.recordings.replaying import parse_moment

    try:
        return parse_moment(text)
    except (ValueError, OverflowError) as error:
        raise click.UsageError(
            f"--at {text}: want a time as 2026-11-20T12:03 or 2026-11-20T12:03:04.5+01:00."
        ) from error


def recording_options(command: Callable[..., Any]) -> Any:
    """`moment_asked` takes their values."""
    about = "Ask about a moment of a recording (stowplan record, kube-scheduler --record)."
    moment = "Ask about this moment, such as 2026-11-20T12:03 (UTC). Default: the recording's end."
    return file_option("--recording", help=about)(click.option("--at", metavar="TIME", help=moment)(command))


def moment_asked(recording: str | None, at: str | None, elsewhere: Mapping[str, object]) -> float | None:
    """The moment in seconds since the epoch, None for the end; raises UsageError.

    `elsewhere`: the values of options that a recording excludes.
    """
    if at is not None and recording is None:
        raise click.UsageError("--at is for a moment of a recording: give --recording FILE.")
    given = [name for name, value in elsewhere.items() if value]
    if recording is not None and given:
        raise click.UsageError(f"{', '.join(given)}: --recording has a cluster of its own.")
    return moment_from_option(at)
