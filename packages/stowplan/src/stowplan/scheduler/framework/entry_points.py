"""Entry points of installed packages.

Finding them reads a file per package, which takes milliseconds. The result is therefore cached until a package is
installed or removed, which is detected from the directories on `sys.path`.
"""

from __future__ import annotations

import importlib.metadata
import os
import sys
from functools import lru_cache


def entry_points(*, group: str) -> tuple[importlib.metadata.EntryPoint, ...]:
    """All installed entry points of the group."""
    return _found(group, tuple((path, _changed_at(path)) for path in sys.path))


def _changed_at(path: str) -> int | None:
    try:
        return os.stat(path or os.curdir).st_mtime_ns
    except OSError:
        return None


@lru_cache(maxsize=16)
def _found(group: str, _folders: tuple[tuple[str, int | None], ...]) -> tuple[importlib.metadata.EntryPoint, ...]:
    return tuple(importlib.metadata.entry_points(group=group))
