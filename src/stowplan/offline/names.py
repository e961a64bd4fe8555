"""What to say of a pod or workload that is not there."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST = 3


def near_names(key: str, known: Sequence[str], *, kind: str = "") -> str:
    """Keys (`namespace/name`) that may be meant instead, as a question; empty if there are none.

    The same name in another namespace goes before names spelled alike in this one, and before other keys like it.
    """
    namespace, _, name = key.partition("/")
    by_name = {other.partition("/")[2]: other for other in known if other.partition("/")[0] == namespace}
    near = [other for other in known if other.partition("/")[2] == name]
    near = near or [by_name[other] for other in get_close_matches(name, by_name, n=_MOST)]
    # Keys of one namespace are alike by that already.
    near = near or get_close_matches(key, set(known).difference(by_name.values()), n=_MOST, cutoff=0.75)
    prefix = f"{kind}/" if kind else ""
    return f"; did you mean {' or '.join(f'{prefix}{one}' for one in near[:_MOST])}?" if near else ""
