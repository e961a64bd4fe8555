"""The cluster of a recording at a given time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from stowplan.recordings.files import file_at, is_continued, moment_text
from stowplan.recordings.replaying import Replayed

if TYPE_CHECKING:
    from stowplan.engine.input_log.recording import BrokenOffCalls, Header
    from stowplan.framework.runtime.registry import Registry


@dataclass(frozen=True, kw_only=True)
class Moment:
    header: Header
    #: Of the last input before it.
    at: float
    #: Whether the recording, or the run of that time, had ended before the moment that was asked for.
    is_over: bool
    #: Nodes in their order, pods in the order in which they came, and everything else. Pods on their way to a node,
    #: which the API server had not told of yet, are on it.
    objects: list[Any]
    #: The configuration that was in force, and the plugins that were switched off, as the cluster lacked a kind.
    configuration: dict[str, Any]
    switched_off: frozenset[str]


def moment_of(path: str, when: float | None, registry: Registry, *, broken_off: BrokenOffCalls | None = None) -> Moment:
    """Rebuild a moment of a recording, rotated files included; None: its end. Raise RecordingError."""
    file = file_at(path, when)
    with Replayed(file, registry, broken_off=broken_off) as again:
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
            configuration=engine.profiles.configuration.to_dict(),
            switched_off=off,
        )


def note_of(moment: Moment, when: float | None) -> str:
    """What to say of a moment at which nothing was recorded any more; "" if it was."""
    if when is None or not moment.is_over:
        return ""
    return (
        f"the recording ends at {moment_text(moment.at)}, before {moment_text(when)}: "
        "this is how it was left, and what came then is not known"
    )


def parse_moment(text: str) -> float:
    """Seconds since the epoch of an ISO time, UTC where it says nothing, or of such seconds; ValueError."""
    try:
        return float(text)
    except ValueError:
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()
