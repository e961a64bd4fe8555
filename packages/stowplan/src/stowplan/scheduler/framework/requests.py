"""API requests as values, and their outcomes.

Deciding code does not wait: it emits a request, a driver carries it out, and the outcome is passed back later. Plugins
that wait in PreBind or Bind can do so in *steps*: a generator that yields requests, or a `Wait`, and is resumed with
the outcome. Unlike a coroutine, steps run the same on a real cluster and in simulated time, and can be replayed.

    def bind(self, state, pod, node_name):
        outcome = yield Bind(namespace=pod.namespace, name=..., uid=..., node=node_name)
        return None if isinstance(outcome, Done) else error(outcome.error)
"""

from __future__ import annotations

from collections.abc import Generator
from math import isnan
from typing import Any

import msgspec

from stowplan.kube.api.api_errors import Conflict, InternalError, ServiceUnavailable
from stowplan.kube.api.meta import ApiStruct
from stowplan.kube.api.port import Lane, PatchType, Unreachable
from stowplan.scheduler.framework.status import Status


class Request(msgspec.Struct, frozen=True, tag=True):
    """One request to the API server."""

    @property
    def subject(self) -> str:
        """The object of the request; requests about one object are carried out in order."""
        raise NotImplementedError


class Bind(Request, frozen=True, tag=True, kw_only=True):
    """Bind a pod to a node; the UID guards against another pod of the same name."""

    namespace: str
    name: str
    uid: str
    node: str

    @property
    def subject(self) -> str:
        return f"Pod/{self.namespace}/{self.name}"


class _OfObject(Request, frozen=True, tag=True, kw_only=True):
    obj: ApiStruct

    @property
    def subject(self) -> str:
        return _subject(type(self.obj), self.obj.metadata.namespace, self.obj.metadata.name)  # type: ignore[attr-defined]


class Create(_OfObject, frozen=True, tag=True, kw_only=True):
    """Create an object."""


class Update(_OfObject, frozen=True, tag=True, kw_only=True):
    """Replace an object if it still has this resourceVersion."""


class _ByName(Request, frozen=True, tag=True, kw_only=True):
    kind: type[ApiStruct]
    namespace: str
    name: str

    @property
    def subject(self) -> str:
        return _subject(self.kind, self.namespace, self.name)


class Patch(_ByName, frozen=True, tag=True, kw_only=True):
    body: dict[str, Any] | list[dict[str, Any]]
    type_: PatchType = "strategic"
    subresource: str = ""
    lane: Lane = "default"


class Delete(_ByName, frozen=True, tag=True, kw_only=True):
    """Delete the object if it has this UID and resourceVersion; "" matches any."""

    uid: str = ""
    resource_version: str = ""


class Read(_ByName, frozen=True, tag=True, kw_only=True):
    """Read the current object from the API server, if the cached one may be stale."""


def problem_of(request: Request) -> Exception | None:
    """Why a plugin's request is invalid: it does not name an object."""
    try:
        _ = request.subject
    except Exception as e:
        return e
    return None


def _subject(kind: type[ApiStruct], namespace: str, name: str) -> str:
    return f"{kind.__name__}/{namespace}/{name}"


class Ask(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """Ask an external party, such as an extender; the answer is in `Done`. Both are plain values.

    The driver limits the time: it must have an outcome in the end.
    """

    who: str
    #: filter, prioritize, preempt, bind, or another verb.
    verb: str
    question: Any


#: A kind and the `namespace/name` of an object; `/name` for cluster-scoped kinds.
Key = tuple[str, str]


class Wait(msgspec.Struct, frozen=True, kw_only=True):
    """Resume when one of these objects has changed, or after a time.

    The outcome is `Done` in either case; its value is the elapsed time in seconds.
    """

    keys: frozenset[Key] = frozenset()
    #: Timeout in seconds; None: unlimited.
    seconds: float | None = None

    def __post_init__(self) -> None:
        if self.seconds is None and not self.keys:
            raise ValueError("a Wait needs keys or seconds: this one would never end")
        if self.seconds is not None and isnan(self.seconds):
            raise ValueError("a Wait of NaN seconds would never end")


class Done(msgspec.Struct, frozen=True, tag=True):
    """The request was carried out."""

    #: The object that the API server returned, if any.
    value: Any = None


class Refused(msgspec.Struct, frozen=True, tag=True):
    """The request was not carried out: the API server, or an extender, refused it or was unreachable."""

    error: Exception


class Unknown(msgspec.Struct, frozen=True, tag=True):
    """The request may or may not have been carried out: the response was lost, late or unreadable."""

    error: Exception


Outcome = Done | Refused | Unknown


def is_retriable(outcome: Outcome) -> bool:
    """Whether the request was not carried out, and may be if it is sent again."""
    return isinstance(outcome, Refused) and isinstance(outcome.error, _RETRIABLE)


_RETRIABLE = (Unreachable, InternalError, ServiceUnavailable, Conflict)

#: A generator of what a plugin waits for; its return value is the status.
Steps = Generator["Request | Wait | Ask", Outcome, "Status | None"]


class InvalidStepError(TypeError):
    """A plugin's steps yielded something other than a request or Wait."""

    def __init__(self, yielded: object) -> None:
        super().__init__(f"yielded a {type(yielded).__name__}, want a request or a Wait")
