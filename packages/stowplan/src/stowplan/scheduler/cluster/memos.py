"""Cached values, valid for one version of their inputs."""

from __future__ import annotations

from typing import Any

from stowplan.kube.compiled import mypyc_attr


@mypyc_attr(native_class=False)
class Memos:
    """Name -> (version, value); a value of another version is stale."""

    def __init__(self) -> None:
        self._memos: dict[Any, tuple[Any, Any]] = {}

    def memo(self, name: Any, version: Any) -> Any:
        """The value stored under this name for this version, or None."""
        found = self._memos.get(name)
        return found[1] if found is not None and found[0] == version else None

    def remember(self, name: Any, version: Any, value: Any) -> Any:
        self._memos[name] = (version, value)
        return value
