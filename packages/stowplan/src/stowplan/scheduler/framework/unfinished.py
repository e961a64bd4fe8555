"""Long-running work of a plugin, done in portions so that other pods are tried in between.

A Filter plugin that has more to do than one call should take returns `unfinished(text, portions)`: an error status,
used as such if the plugin may not continue. In a scheduling cycle, the plugin is called again, up to that many times
per attempt, and continues where it stopped. In a question about a pod, the status is an error like any other.

The size of a portion must not depend on a clock, because recordings must be reproducible.
"""

from __future__ import annotations

from collections.abc import Iterator

from stowplan.kube.compiled import mypyc_attr
from stowplan.scheduler.framework.status import Code, Status


@mypyc_attr(native_class=False)
class UnfinishedError(Exception):
    """A plugin has more to do."""

    def __init__(self, text: str, portions: int | None) -> None:
        """`portions`: the maximum number per attempt; None: unlimited."""
        super().__init__(text)
        self.portions = portions


def unfinished(text: str, portions: int | None) -> Status:
    return Status(Code.Error, error=UnfinishedError(text, portions))


def unfinished_of(status: Status | None) -> UnfinishedError | None:
    """The UnfinishedError in a status, however it was wrapped; None if there is none."""
    if status is None or status.code != Code.Error:
        return None
    return next((cause for cause in _causes(status.error) if isinstance(cause, UnfinishedError)), None)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__
