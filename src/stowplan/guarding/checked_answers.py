"""What user plugins are handed and return: columns that cannot be written, results that cannot fail later.

The framework trusts in-tree plugins: it combines their masks without looking at them, and computes reasons on demand,
when nothing could be blamed on a plugin anymore. A user plugin's result is checked within its call instead, so that a
mask of the wrong length fails that pod's attempt, and not the scheduler.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

import numpy as np

from stowplan.framework.interface import PreFilterResult
from stowplan.framework.rejections import Entry, Rejections
from stowplan.framework.status import Code, Reason, unexpected

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import numpy.typing as npt

    from stowplan.cluster.view import Nodes


_OURS = "stowplan"


def checked_method(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    """A plugin's method whose arguments are protected and whose result is checked, if that is needed for the method.

    What a plugin inherits from an in-tree plugin, or from the loops over nodes, is trusted.
    """
    check = _CHECKS.get(name)
    if check is None or (method.__module__ or "").partition(".")[0] == _OURS:
        return method

    @wraps(method)
    def checked(plugin: Any, state: Any, pod: Any, nodes: Nodes, *others: Any, **keys: Any) -> Any:
        return check(method(plugin, state, pod, nodes.protected(), *others, **keys), nodes)

    return checked


def _filtered(answer: object, nodes: Nodes) -> object:
    if not isinstance(answer, Rejections):
        return answer
    mask = _own_mask(answer.mask, len(nodes))
    return Rejections(mask, tuple(_entry(entry, len(nodes)) for entry in answer.entries))


def _entry(entry: Any, count: int) -> Entry:
    if not isinstance(entry, Entry):
        raise unexpected("Rejections whose entries are of type Entry", entry)
    if not isinstance(entry.code, Code):
        raise unexpected("a Code as the code of an Entry", entry.code)
    if not isinstance(entry.reason, Reason):
        raise unexpected("a Reason as the reason of rejections", entry.reason)
    return entry._replace(mask=_own_mask(entry.mask, count))


def _own_mask(mask: object, count: int) -> npt.NDArray[np.bool_]:
    if not isinstance(mask, np.ndarray):
        raise unexpected(f"a mask of {count} nodes", mask)
    if mask.shape != (count,) or mask.dtype != np.bool_:
        raise TypeError(f"want a mask of {count} nodes (bool), got an array of {mask.dtype} with shape {mask.shape}")
    return _own(mask)


def _scored(answer: object, nodes: Nodes) -> object:
    return _own(answer) if isinstance(answer, np.ndarray) else answer


def _own(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Results are updated in place, which must not reach what the array is a view of."""
    return array if array.base is None else array.copy()


def _pre_filtered(answer: object, nodes: Nodes) -> object:
    if not isinstance(answer, PreFilterResult) or answer.node_names is None:
        return answer
    names: Any = answer.node_names
    if not isinstance(names, frozenset | set) or not _all_names(names):
        raise unexpected("a set of node names in PreFilterResult", names)
    return PreFilterResult(frozenset(names))


def _all_names(names: Iterable[object]) -> bool:
    return all(isinstance(name, str) for name in names)


def _unchecked(answer: object, nodes: Nodes) -> object:
    return answer


#: Methods with the arguments `state, pod, nodes`.
_CHECKS: dict[str, Callable[[object, Nodes], object]] = {
    "pre_filter": _pre_filtered,
    "filter": _filtered,
    "pre_score": _unchecked,
    "score": _scored,
}
