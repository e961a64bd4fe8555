"""API requests as values, and their outcomes.

Whoever decides does not wait: a request is handed out, a driver carries it out, and its outcome comes back later.
Plugins that wait in PreBind or Bind may do so as *steps*: a generator that yields requests, or a `Wait`, and is resumed
with the outcome. Unlike a coroutine, steps run alike on a real cluster and in simulated time, and can be repeated.

    def bind(self, state, pod, node_name):
        outcome = yield Bind(namespace=pod.namespace, name=..., uid=..., node=node_name)
        return None if isinstance(outcome, Done) else error(outcome.error)
"""

from __future__ import annotations

from collections.abc import Generator
from math import isnan
from typing import TYPE_CHECKING, Any

import msgspec

from stowplan.api.meta import ApiStruct
from stowplan.api.port import Lane, PatchType

if TYPE_CHECKING:
    from stowplan.framework.status import Status


class Request(msgspec.Struct, frozen=True, tag=True):
    """One request to the API server."""

    @property
    def subject(self) -> str:
        """The object that it is about: requests about one object are carried out in their order."""
        raise NotImplementedError


class Bind(Request, frozen=True, tag=True, kw_only=True):
    """Put a pod on a node; the UID keeps it from another pod of the same name."""

    namespace: str
    name: str
    uid: str
    node: str

    @property
    def subject(self) -> str:
        return f"Pod/{self.namespace}/{self.name}"


class Create(Request, frozen=True, tag=True, kw_only=True):
    obj: ApiStruct

    @property
    def subject(self) -> str:
        return _subject(type(self.obj), self.obj.metadata.namespace, self.obj.metadata.name)  # type: ignore[attr-defined]


class Update(Request, frozen=True, tag=True, kw_only=True):
    """Replace an object, if it still has this resourceVersion."""

    obj: ApiStruct

    @property
    def subject(self) -> str:
        return _subject(type(self.obj), self.obj.metadata.namespace, self.obj.metadata.name)  # type: ignore[attr-defined]


class Patch(Request, frozen=True, tag=True, kw_only=True):
    kind: type[ApiStruct]
    namespace: str
    name: str
    body: dict[str, Any] | list[dict[str, Any]]
    type_: PatchType = "strategic"
    subresource: str = ""
    lane: Lane = "default"

    @property
    def subject(self) -> str:
        return _subject(self.kind, self.namespace, self.name)


class Delete(Request, frozen=True, tag=True, kw_only=True):
    """Delete the object if it is the one with this UID and resource version; "" for any."""

    kind: type[ApiStruct]
    namespace: str
    name: str
    uid: str = ""
    resource_version: str = ""

    @property
    def subject(self) -> str:
        return _subject(self.kind, self.namespace, self.name)


class Read(Request, frozen=True, tag=True, kw_only=True):
    """What the API server has now, where what is known may be too old."""

    kind: type[ApiStruct]
    namespace: str
    name: str

    @property
    def subject(self) -> str:
        return _subject(self.kind, self.namespace, self.name)


def problem_of(request: Request) -> Exception | None:
    """Why nobody can carry a plugin's request out: it is about no object."""
    try:
        _ = request.subject
    except Exception as e:
        return e
    return None


def _subject(kind: type[ApiStruct], namespace: str, name: str) -> str:
    return f"{kind.__name__}/{namespace}/{name}"


class Ask(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """Put a question to somebody outside, such as an extender; `Done` has what it answers. Both are plain values."""

    who: str
    #: filter, prioritize, preempt, bind; or what else there is to ask.
    verb: str
    question: Any


#: A kind, and the `namespace/name` of an object of it; `/name` where there are no namespaces.
Key = tuple[str, str]


class Wait(msgspec.Struct, frozen=True, kw_only=True):
    """Go on when one of these objects has changed, or at a time.

    The outcome is `Done` in either case, and its value the seconds that it took.
    """

    keys: frozenset[Key] = frozenset()
    #: Seconds from now; None: however long it takes.
    seconds: float | None = None

    def __post_init__(self) -> None:
        if self.seconds is None and not self.keys:
            raise ValueError("a Wait needs keys or seconds: this one would never end")
        if self.seconds is not None and isnan(self.seconds):
            raise ValueError("a Wait of NaN seconds would never end")


class Done(msgspec.Struct, frozen=True, tag=True):
    """It was carried out."""

    #: The object as the API server answered, where it answers with one.
    value: Any = None


class Refused(msgspec.Struct, frozen=True, tag=True):
    """It was not carried out: the API server said no, or could not be reached."""

    error: Exception


class Unknown(msgspec.Struct, frozen=True, tag=True):
    """It may or may not have been carried out: the answer was lost, or cannot be read."""

    error: Exception


Outcome = Done | Refused | Unknown

#: What a plugin waits for step by step, and its answer at the end.
Steps = Generator["Request | Wait | Ask", Outcome, "Status | None"]


class OddStepError(TypeError):
    """A plugin's steps yield something other than a request or Wait."""

    def __init__(self, yielded: object) -> None:
        super().__init__(f"yielded a {type(yielded).__name__}, want a request or a Wait")
