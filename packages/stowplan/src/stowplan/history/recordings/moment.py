"""The cluster of a recording at a given time."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from stowplan.history.recordings.files import file_at, is_continued, moment_text
from stowplan.history.recordings.replaying import Replayed
from stowplan.kube.structs import PlainStruct

if TYPE_CHECKING:
    from stowplan.scheduler.engine.input_log.recording import Header, InterruptedCalls
    from stowplan.scheduler.framework.runtime.registry import Registry


class Moment(PlainStruct, frozen=True, kw_only=True):
    header: Header
    #: Time of the last input before it.
    at: float
    #: Whether the recording, or the run at that time, had ended before the requested moment.
    is_over: bool
    #: Nodes in order, pods in order of arrival, and everything else. Assumed pods that the API server had not confirmed
    #: yet are on their node.
    objects: list[Any]
    #: The active configuration, and the plugins that were disabled because of missing kinds.
    configuration: dict[str, Any]
    switched_off: frozenset[str]


def moment_of(
    path: str, when: float | None, registry: Registry, *, interrupted: InterruptedCalls | None = None
) -> Moment:
    """Rebuild a moment of a recording, including rotated files; None: its end. Raises RecordingError."""
    file = file_at(path, when)
    with Replayed(file, registry, interrupted=interrupted) as again:
        at = again.header.now
        for step in again.steps(when):
            at = step.entry.now
        engine = again.engine
        off = frozenset[str]().union(*(framework.switched_off for framework in engine.frameworks.values()))
        return Moment(
            header=again.header,
            at=at,
            is_over=when is not None and at < when and not again.goes_on and not is_continued(path, file),
            objects=engine.state.everything(),
            configuration=engine.profiles.configuration.shown(),
            switched_off=off,
        )


def note_of(moment: Moment, when: float | None) -> str:
    """A note for a moment after the end of the recording; "" otherwise."""
    if when is None or not moment.is_over:
        return ""
    return (
        f"the recording ends at {moment_text(moment.at)}, before {moment_text(when)}: "
        "this is how it was left, and what came then is not known"
    )


def parse_moment(text: str) -> float:
    """Seconds since the epoch for an ISO time, by default in UTC, or for a number of seconds; raises ValueError."""
    try:
        return float(text)
    except ValueError:
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()
