"""Commands contributed by installed packages (entry-point group `stowplan.commands`).

Names come from package metadata, so a command's module is only imported when the command is run or listed. A command
that cannot be loaded costs one line on stderr, and does not affect other commands.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

import click

from stowplan.app.command_line.error_reporting import InputError
from stowplan.app.command_line.standard_streams import print_to_stderr
from stowplan.scheduler.framework.entry_points import entry_points
from stowplan.scheduler.framework.status import RAISED

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINT_GROUP = "stowplan.commands"


def installed_commands(taken: Collection[str]) -> ContributedCommands:
    """Commands of all installed packages; `taken` are the names of the program's own commands."""
    return ContributedCommands(entry_points(group=ENTRY_POINT_GROUP), taken)


class ContributedCommands:
    """Loads each command at most once, and reports each problem at most once."""

    def __init__(self, points: Iterable[EntryPoint], taken: Collection[str]) -> None:
        self._points: dict[str, EntryPoint] = {}
        self._loaded: dict[str, click.Command | None] = {}
        for point in points:
            first = self._points.setdefault(point.name, point)
            if point.name in taken:
                del self._points[point.name]
                print_to_stderr(f"warning: {_described(point)} is not used: stowplan has a command of that name")
            elif first is not point:
                print_to_stderr(f"warning: {_described(point)} is not used: {_described(first)} comes first")

    def __contains__(self, name: str) -> bool:
        return name in self._points

    def offered(self) -> list[str]:
        """The names of all commands."""
        return list(self._points)

    def find(self, name: str) -> click.Command | None:
        """The command for a list; None, after a line on stderr, if it cannot be loaded."""
        if name not in self._loaded:
            try:
                self._loaded[name] = self.load(name)
            except InputError as error:
                self._loaded[name] = None
                print_to_stderr(f"warning: {error.format_message()}")
        return self._loaded[name]

    def load(self, name: str) -> click.Command:
        """The command to run; raises InputError."""
        point = self._points[name]
        try:
            command = point.load()
        except RAISED as error:
            # Importing third-party code may raise anything.
            raise InputError(f"{_described(point)} cannot be loaded: {type(error).__name__}: {error}") from error
        if not isinstance(command, click.Command):
            raise InputError(f"{_described(point)} cannot be loaded: {point.value} is not a click command")
        return command


def _distribution(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.module.partition(".")[0]


def _described(point: EntryPoint) -> str:
    return f"command '{point.name}' of {_distribution(point)} ({point.value})"
