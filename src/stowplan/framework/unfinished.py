"""Work of a plugin that may take long, and is done in portions so that other pods are tried in between.

A Filter plugin that has more to do than one call should take returns `unfinished(text, portions)`: the error that the
attempt ends with if the plugin may not go on. Where scheduling cycles can be suspended, the plugin is asked again, up
to that many times per attempt; it goes on where it stopped. Everywhere else the status is an error like any other.

How much a portion is must not depend on a clock: a recorded run has to be repeated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.framework.status import Code, Status

if TYPE_CHECKING:
    from collections.abc import Iterator


class UnfinishedError(Exception):
    """A plugin has more to do."""

    def __init__(self, text: str, portions: int | None) -> None:
        """`portions`: how many it may take per attempt; None: any number."""
        super().__init__(text)
        self.portions = portions


def unfinished(text: str, portions: int | None) -> Status:
    return Status(Code.Error, error=UnfinishedError(text, portions))


def unfinished_of(status: Status | None) -> UnfinishedError | None:
    """The plugin's word that it has more to do, whatever was put before it; None if the status says something else."""
    if status is None or status.code != Code.Error:
        return None
    return next((cause for cause in _causes(status.error) if isinstance(cause, UnfinishedError)), None)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__
