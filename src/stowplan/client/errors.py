"""Client errors without an API status, such as a request that may have succeeded."""

from __future__ import annotations

from stowplan.api.port import Unreachable


class OutcomeUnknown(Unreachable):
    """The request was sent, its answer was lost: the server may have acted on it, or may still.

    Whoever asked has to look at the object before asking again.
    """


class StreamSilent(Unreachable):
    """A stream that was open said nothing for so long that the connection may be dead; or nothing happened."""


class RequestDropped(Exception):
    """The request was not sent: its lane holds as many waiting requests as it may. Only events are dropped."""
