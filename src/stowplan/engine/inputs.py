"""Inputs of the engine: everything decisions depend on besides configuration and seed.

A driver hands inputs over one after the other, each with the time; the same inputs at the same times give the same
effects. Where a turn of scheduling ends is an input, too: a `Schedule` tries one pod.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from stowplan.api.changes import Change
from stowplan.api.meta import ApiStruct
from stowplan.framework.requests import Outcome

if TYPE_CHECKING:
    from stowplan.engine.effects import Tell
    from stowplan.framework.status import Status


class Changes(msgspec.Struct, frozen=True):
    """Objects of one kind have come, changed or gone, in this order."""

    kind: type[ApiStruct]
    changes: Sequence[Change[Any]]


class Served(NamedTuple):
    """The cluster serves what these plugins need from now on, or does not."""

    plugins: frozenset[str]
    served: bool


class Started(NamedTuple):
    """Pods are tried from now on: this scheduler leads."""


class Stopped(NamedTuple):
    """No pod is tried any more, and time moves none in the queue."""


class Closing(NamedTuple):
    """The end is near: what is still to be written is written now or never."""


class Schedule(NamedTuple):
    """Try the next pod of the queue."""


class Answer(msgspec.Struct, frozen=True):
    """How an effect ended."""

    number: int
    outcome: Outcome


class Offered(NamedTuple):
    """Another configuration may come into force: its profiles are built, and nothing is decided by them yet."""

    #: As a file of v1 has it, complete.
    configuration: dict[str, Any]


class Adopted(NamedTuple):
    """What was offered last is in force from now on; the cluster does not serve what these plugins need."""

    lacking: frozenset[str]


class Declined(NamedTuple):
    """What was offered last will not come into force."""


class Tick(NamedTuple):
    """Time has passed."""


class WallClock(NamedTuple):
    """The wall clock is ahead of the engine's time by so many seconds."""

    ahead: float


# -- what plugins' coroutines do between steps; within a step the same calls need not be told --------------------------


class Activated(NamedTuple):
    """These pods are to be tried soon: keys."""

    pods: tuple[str, ...]


class Allowed(NamedTuple):
    """A pod that waits on Permit has nothing to fear from this plugin."""

    uid: str
    plugin: str


class Rejected(NamedTuple):
    """A pod that waits on Permit is turned away."""

    uid: str
    status: Status


class Cancelled(NamedTuple):
    """A pod in PreBind has to give way."""

    uid: str
    reason: str


class Told(NamedTuple):
    """An event for users."""

    event: Tell


Steps = Started | Stopped | Closing | Schedule | Tick | WallClock
Signals = Activated | Allowed | Rejected | Cancelled | Told
Swaps = Offered | Adopted | Declined
Input = Changes | Served | Answer | Swaps | Steps | Signals
