"""Client errors without an API status, such as a request that may have succeeded."""

from __future__ import annotations

from stowplan.kube.api.port import Unreachable


class OutcomeUnknown(Unreachable):
    """The request was sent but its response was lost: the server may have processed it, or still may.

    The caller has to read the object before it retries.
    """


class StreamSilent(Unreachable):
    """An open stream was silent for so long that the connection may be dead; or there were no events."""


class RequestDropped(Exception):
    """The request was not sent, because its lane is full. Only events are dropped."""
