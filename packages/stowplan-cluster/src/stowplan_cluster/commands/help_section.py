"""The section of `stowplan --help` that lists these commands."""

from __future__ import annotations

from stowplan.app.command_line.commands import Section

WITHOUT_A_CLUSTER = Section(
    "Without a cluster at hand:",
    (
        ("stowplan demo", ""),
        ("stowplan up", "a cluster that schedules, for kubectl"),
        ("stowplan apiserver --nodes 100", "the same without a scheduler, to bring your own"),
    ),
)
