"""A change of one API object, as reported to watchers."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

from stowplan.kube.api.meta import ApiStruct

T = TypeVar("T", bound=ApiStruct)


class Change(msgspec.Struct, Generic[T], frozen=True):
    """An addition if there is no old object, a deletion if there is no new one; `old` is what was delivered before."""

    old: T | None
    new: T | None
