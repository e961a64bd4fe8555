"""Stages of a write that trusted callers may skip, for speed.

All are on by default, and the server then behaves as a real one. Types are always enforced, defaults always set,
versions and uids always compared: reading, binding and watching work with any stages.
"""

from __future__ import annotations

from collections.abc import Collection

from stowplan.kube.structs import PlainStruct

_NAMES = {"admission": "admission", "managed-fields": "managed_fields", "validation": "validation"}


class Stages(PlainStruct, frozen=True, kw_only=True):
    #: Without it, no admission plugin runs: pods get no priority from their class and no default tolerations,
    #: claims no default storage class, and namespaces need not exist.
    admission: bool = True
    #: Without it, managedFields are maintained only for objects that use server-side apply.
    managed_fields: bool = True
    #: Without it, any object with the right types is stored, without warnings. CustomResourceDefinitions are validated
    #: nevertheless, as the server relies on them.
    validation: bool = True

    @classmethod
    def without(cls, names: Collection[str]) -> Stages:
        """All stages but these; raise ValueError for an unknown name."""
        unknown = sorted(set(names) - _NAMES.keys())
        if unknown:
            raise ValueError(f"no stage is called {', '.join(unknown)}; there are {', '.join(_NAMES)}")
        return cls(**{_NAMES[name]: False for name in names})


ALL_STAGES = Stages()
