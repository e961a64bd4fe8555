"""Suggestions for a pod or workload name that does not exist."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

_MOST = 3


def near_names(key: str, known: Sequence[str], *, kind: str = "") -> str:
    """Similar keys (`namespace/name`), as a question; empty if there are none.

    The same name in another namespace comes first, then similar names in this namespace, then other similar keys.
    """
    namespace, _, name = key.partition("/")
    by_name = {other.partition("/")[2]: other for other in known if other.partition("/")[0] == namespace}
    near = [other for other in known if other.partition("/")[2] == name]
    near = near or [by_name[other] for other in get_close_matches(name, by_name, n=_MOST)]
    # Keys of the same namespace are similar for that reason alone.
    near = near or get_close_matches(key, set(known).difference(by_name.values()), n=_MOST, cutoff=0.75)
    prefix = f"{kind}/" if kind else ""
    return f"; did you mean {' or '.join(f'{prefix}{one}' for one in near[:_MOST])}?" if near else ""
