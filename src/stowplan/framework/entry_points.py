"""What installed packages offer.

To look for it, Python reads a file of each package: milliseconds, for every cluster that somebody makes. So what was
found holds until a package comes or goes, which the folders that Python looks into show.
"""

from __future__ import annotations

import importlib.metadata
import os
import sys
from functools import lru_cache


def entry_points(*, group: str) -> tuple[importlib.metadata.EntryPoint, ...]:
    """The entry points of the group, of all that is installed now."""
    return _found(group, tuple((path, _changed_at(path)) for path in sys.path))


def _changed_at(path: str) -> int | None:
    try:
        return os.stat(path or os.curdir).st_mtime_ns
    except OSError:
        return None


@lru_cache(maxsize=16)
def _found(group: str, _folders: tuple[tuple[str, int | None], ...]) -> tuple[importlib.metadata.EntryPoint, ...]:
    return tuple(importlib.metadata.entry_points(group=group))
