"""Effects of the engine: numbered values that a driver carries out.

The engine changes nothing outside itself. Each step returns its effects, in order. The outcome of an effect that has
one is passed back as the input `Answer`, with the effect's number. Effects on one object are carried out in order
(`Request.subject`), others in any order.
"""

from __future__ import annotations

from typing import Any

import msgspec

from stowplan.kube.api.meta import ApiStruct, ObjectReference
from stowplan.scheduler.framework.requests import Ask, Request


# The tag is part of recordings, also of their checksums.
class EmitEvent(msgspec.Struct, frozen=True, tag="Tell", kw_only=True):
    """Emit a Kubernetes Event about an object; there is no answer."""

    profile: str
    regarding: ObjectReference
    type_: str
    reason: str
    action: str
    note: str
    related: ObjectReference | None = None


class RunPlugin(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """Run a plugin's coroutine for a pod in its binding cycle; `Done` has its Status, or None."""

    profile: str
    #: PreBind, Bind or PostBind.
    point: str
    plugin: str
    #: The pod's namespace/name, for logs.
    pod: str
    uid: str
    node: str


class Wake(msgspec.Struct, frozen=True, tag=True):
    """Pass a `Tick` to the engine at this time or later; an earlier one is allowed."""

    at: float


class Pause(msgspec.Struct, frozen=True, tag=True):
    """Answer after other pods had their turns, because a cycle has more work than fits into one turn."""


class Cancel(msgspec.Struct, frozen=True, tag=True):
    """Cancel an effect in progress; its answer is still required."""

    number: int
    why: str = ""


class Withdraw(msgspec.Struct, frozen=True, tag=True):
    """Drop an effect: its answer is no longer needed, and it need not be started."""

    number: int


Action = Request | EmitEvent | RunPlugin | Ask | Wake | Pause | Cancel | Withdraw


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
