"""The section of `stowplan --help` that lists these commands."""

from __future__ import annotations

from stowplan.app.command_line.commands import Section

DAYS_IN_SECONDS = Section(
    "What would a day be like?",
    (
        ("stowplan simulate day.yaml", "a day in seconds, with pictures"),
        ("stowplan compare a.yaml b.yaml --scenario day.yaml", "configurations side by side"),
        ("stowplan tune day.yaml --objective waits=1,cost=0.5", "search for a better configuration"),
    ),
)
