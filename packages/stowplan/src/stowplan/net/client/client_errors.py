"""Client errors without an API status: before a request is sent, or when it may have succeeded."""

from __future__ import annotations

from stowplan.kube.api.api_errors import ApiError, Unauthorized
from stowplan.kube.api.port import Unreachable

# A long-running client should treat these two differently: an invalid configuration is permanent, while credentials may
# become available again, when the token file is rewritten or the exec plugin reaches its identity provider.


class ClientConfigError(ValueError):
    """The configuration is invalid; `str()` names the file, the entry, the field and the fix."""


class CredentialsError(Exception):
    """Credentials are currently unavailable; the next request retries."""


class OutcomeUnknown(Unreachable):
    """The request was sent but its response was lost: the server may have processed it, or still may.

    The caller has to read the object before it retries.
    """


class NoResponse(Exception):
    """A request to an extender without a complete response; says which one and why."""

    def __init__(self, text: str, *, sent: bool) -> None:
        """`sent`: whether the extender may have received it, and done what it asks for."""
        super().__init__(text)
        self.sent = sent


class StreamSilent(Unreachable):
    """An open stream was silent for so long that the connection may be dead; or there were no events."""


class RequestDropped(Exception):
    """The request was not sent, because its lane is full. Only events are dropped."""


# Error messages for a cluster that cannot be reached or does not respond as expected.


def unreachable_message(server: str, error: ApiError | Unreachable) -> str:
    if isinstance(error, Unreachable):
        return f"cannot reach the cluster: {error}"
    hint = "; the token or certificate is wrong or has expired" if isinstance(error, Unauthorized) else ""
    return f"{server} refused: {error}{hint}"
