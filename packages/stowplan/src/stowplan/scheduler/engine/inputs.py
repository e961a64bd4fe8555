"""Inputs of the engine: everything that decisions depend on besides configuration and seed.

A driver passes inputs one after the other, each with the time; the same inputs at the same times give the same effects.
The length of a scheduling turn is an input, too: each `Schedule` tries one pod.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from stowplan.kube.api.meta import ApiStruct
from stowplan.kube.api.port import Change
from stowplan.scheduler.engine.effects import EmitEvent
from stowplan.scheduler.framework.requests import Outcome
from stowplan.scheduler.framework.status import Status


class Changes(msgspec.Struct, frozen=True):
    """Objects of one kind were added, changed or deleted, in this order."""

    kind: type[ApiStruct]
    changes: Sequence[Change[Any]]


class Served(NamedTuple):
    """The kinds that these plugins need became available, or unavailable."""

    plugins: frozenset[str]
    served: bool


class Started(NamedTuple):
    """Start scheduling: this scheduler is the leader."""


class Stopped(NamedTuple):
    """Stop scheduling; backoffs and timeouts in the queue are paused."""


class Closing(NamedTuple):
    """Shutdown is near: pending writes are written now or never."""


class Schedule(NamedTuple):
    """Try the next pod of the queue."""


class Answer(msgspec.Struct, frozen=True):
    """The outcome of an effect."""

    number: int
    outcome: Outcome


class Offered(NamedTuple):
    """Build the profiles of a new configuration, without using them yet."""

    #: As in a v1 file, complete.
    configuration: dict[str, Any]


class Adopted(NamedTuple):
    """Use the last offered configuration from now on; the kinds that these plugins need are not served."""

    lacking: frozenset[str]


class Declined(NamedTuple):
    """Drop the last offered configuration."""


class Tick(NamedTuple):
    """Time has passed."""


class WallClock(NamedTuple):
    """The wall clock is ahead of the engine's time by this many seconds."""

    ahead: float


# -- calls of plugins' coroutines between steps; the same calls within a step are not inputs ---------------------------


class Activated(NamedTuple):
    """Activate these pods (keys)."""

    pods: tuple[str, ...]


class Allowed(NamedTuple):
    """A plugin allows a pod that waits on Permit."""

    uid: str
    plugin: str


class Rejected(NamedTuple):
    """Reject a pod that waits on Permit."""

    uid: str
    status: Status


class Cancelled(NamedTuple):
    """Cancel a pod in PreBind."""

    uid: str
    reason: str


class EventEmitted(NamedTuple):
    """Emit a Kubernetes Event."""

    event: EmitEvent


Steps = Started | Stopped | Closing | Schedule | Tick | WallClock
Signals = Activated | Allowed | Rejected | Cancelled | EventEmitted
Swaps = Offered | Adopted | Declined
Input = Changes | Served | Answer | Swaps | Steps | Signals
