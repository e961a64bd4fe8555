"""A change of one API object, as reported to watchers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from stowplan.api.meta import ApiStruct

T = TypeVar("T", bound=ApiStruct)


@dataclass(frozen=True, slots=True)
class Change(Generic[T]):
    """Added if there is no old object, deleted if there is no new one; `old` is what was delivered before."""

    old: T | None
    new: T | None
