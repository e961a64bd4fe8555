"""Stages of a write that trusted callers may skip, for speed.

All of them are on by default, and the server then answers as a real one. Types are always enforced, defaults always
set, versions and uids always compared: objects can be read, bound and watched with any stages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

_NAMES = {"admission": "admission", "managed-fields": "managed_fields", "validation": "validation"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stages:
    #: Without it, no admission plugin runs: pods get no priority from their class and no default tolerations,
    #: claims no default storage class, and namespaces need not exist.
    admission: bool = True
    #: Without it, who manages which fields is recorded only for objects that somebody applies to.
    managed_fields: bool = True
    #: Without it, whatever has the right types is stored, and nobody is warned. Definitions of custom resources are
    #: validated nevertheless, as the server itself relies on them.
    validation: bool = True

    @classmethod
    def without(cls, names: Collection[str]) -> Stages:
        """All but those; ValueError for a name that is unknown."""
        unknown = sorted(set(names) - _NAMES.keys())
        if unknown:
            raise ValueError(f"no stage is called {', '.join(unknown)}; there are {', '.join(_NAMES)}")
        return cls(**{_NAMES[name]: False for name in names})


ALL_STAGES = Stages()
