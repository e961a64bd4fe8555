"""What the engine wants done: numbered values that a driver carries out.

The engine changes nothing outside itself. Each step answers with the effects that follow from it, in order. Those that
end in an answer get it back as the input `Answer`, by their number. Effects about one object are carried out in their
order (`Request.subject`); others in any.
"""

from __future__ import annotations

from typing import Any

import msgspec

from stowplan.api.meta import ApiStruct, ObjectReference
from stowplan.framework.requests import Ask, Request


class Tell(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """Tell users of an object by an Event; there is no answer."""

    profile: str
    regarding: ObjectReference
    type_: str
    reason: str
    action: str
    note: str
    related: ObjectReference | None = None


class RunPlugin(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """Run a plugin's coroutine for a pod that is on its way to a node; `Done` has its Status, or None."""

    profile: str
    #: PreBind, Bind or PostBind.
    point: str
    plugin: str
    #: The pod's namespace/name, for people.
    pod: str
    uid: str
    node: str


class Wake(msgspec.Struct, frozen=True, tag=True):
    """Give the engine a `Tick` at this time, or later; an earlier one may come, too."""

    at: float


class Pause(msgspec.Struct, frozen=True, tag=True):
    """Answer when other pods have had their turns: a cycle has more work to do than one turn should take."""


class Cancel(msgspec.Struct, frozen=True, tag=True):
    """Break off an effect that is under way; its answer comes nevertheless."""

    number: int
    why: str = ""


class Withdraw(msgspec.Struct, frozen=True, tag=True):
    """Drop an effect: nobody waits for its answer any more, and it need not be begun."""

    number: int


Action = Request | Tell | RunPlugin | Ask | Wake | Pause | Cancel | Withdraw


class Effect(msgspec.Struct, frozen=True):
    number: int
    action: Any

    def encoded(self) -> bytes:
        """The effect as bytes: equal for equal effects."""
        return _ENCODER.encode(self)


def _plain(value: Any) -> Any:
    if isinstance(value, type) and issubclass(value, ApiStruct):
        return value.__name__
    raise TypeError(f"an effect cannot hold a {type(value).__name__}")


_ENCODER = msgspec.json.Encoder(enc_hook=_plain, order="deterministic")
