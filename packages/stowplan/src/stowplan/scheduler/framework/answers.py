"""What plugins are handed and return: invalid results raise, within the call; results that are kept belong to us.

Every plugin's result is checked for its type. In-tree plugins are trusted beyond that: the framework combines their
masks without looking at them, computes reasons on demand, when nothing could be blamed on a plugin anymore, and keeps
their arrays. A user plugin's methods are called through `protected`: columns that it is handed cannot be written; a
mask of the wrong length fails that pod's attempt, and not the scheduler; and arrays are copied, so that the plugin may
keep them and refill them for the next pod. Whoever asks whether a result has changed compares values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

import numpy as np

from stowplan.scheduler.cluster.arrays import Ints, Mask
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.cluster.view import Nodes, unwritable
from stowplan.scheduler.framework import interface
from stowplan.scheduler.framework.batch_state import BatchState
from stowplan.scheduler.framework.diagnosis import Entry, Rejections
from stowplan.scheduler.framework.eviction_plan import EvictionPlan
from stowplan.scheduler.framework.interface import Placement, PostFilterPlugin, PostFilterResult, PreFilterResult
from stowplan.scheduler.framework.status import Code, Reason, Status, error, raised, unexpected, well_formed, wrapped

Method = Callable[..., Any]


_SCORES = np.dtype(np.int64)


def checked_scores(count: int, answer: object) -> Ints | Status:
    if isinstance(answer, Status):
        return answer
    if not isinstance(answer, np.ndarray) or answer.shape != (count,):
        raise unexpected(f"an array of {count} scores or a Status", answer)
    if answer.dtype == _SCORES:
        return answer
    if answer.dtype.kind not in "iu":
        # Truncation would silently make the scores of several nodes equal.
        raise TypeError(f"want whole numbers as scores, got an array of {answer.dtype}: round them first")
    return answer.astype(_SCORES)


def pre_filter_result(answer: Any) -> PreFilterResult | Status | None:
    if isinstance(answer, PreFilterResult):
        return answer
    return well_formed(answer, "a PreFilterResult, a Status or None")


def filter_result(answer: object) -> Rejections | Status | None:
    if isinstance(answer, Rejections | Status):
        return answer
    raise unexpected("Rejections, a Status or None", answer)


def post_filter_result(pod: PodInfo, answer: object) -> PostFilterResult:
    """Raise if the result is not a valid PostFilter result."""
    if not isinstance(answer, PostFilterResult):
        raise unexpected("a PostFilterResult", answer)
    _check_plan(answer, pod)
    return answer


def failed_post_filter(plugin: PostFilterPlugin, cause: BaseException, by: Callable[..., Any]) -> PostFilterResult:
    return PostFilterResult(wrapped(f'running PostFilter plugin "{plugin.name}"', raised(cause, by)))


def _check_plan(answer: PostFilterResult, pod: PodInfo) -> None:
    """Raise if the result has an eviction plan that cannot be carried out for the pod."""
    plan = answer.plan
    if plan is None:
        return
    if not isinstance(plan, EvictionPlan):
        raise unexpected("an EvictionPlan", plan)
    if answer.status.code != Code.Success:
        raise ValueError(f"an eviction plan goes with status Success, not {answer.status.code.name}")
    if plan.preemptor.uid != pod.uid:
        raise ValueError(f"the eviction plan is for pod {plan.preemptor.key}, not for {pod.key}")
    # Compiled code would check the type itself, and say less.
    victims: object = cast("Any", plan).victims
    if not isinstance(victims, tuple) or not all(isinstance(victim, PodInfo) for victim in victims):
        raise unexpected("an EvictionPlan whose victims are a tuple of PodInfo", victims)
    if plan.node_name != answer.nominated_node_name:
        raise ValueError(f"an eviction plan for node {plan.node_name} with nominated node {answer.nominated_node_name}")


def out_of_range(point: str, plugin: str, score: int) -> Status:
    return error(
        f'applying score defaultWeights on {point} plugins: plugin "{plugin}" returns an invalid score {score}, '
        "it should in the range of [0, 100] after normalizing"
    )


# -- user plugins ------------------------------------------------------------------------------------------------------


def protected(point: str, method: Method, *args: Any) -> Any:
    """Call a user plugin's method with arguments that it cannot write to, and check and copy its result.

    The interface's loops over nodes are trusted. What a plugin inherits from an in-tree plugin is not: it may work on
    what the plugin's other methods made.
    """
    protecting = _PROTECTING.get(point)
    if protecting is None or method.__module__ == interface.__name__:
        return method(*args)
    return protecting(method, *args)


def _on_nodes(own: Callable[[object, Nodes], object]) -> Method:
    """For methods with the arguments `state, pod, nodes`."""

    def calling(method: Method, state: Any, pod: Any, nodes: Nodes) -> Any:
        return own(method(state, pod, nodes.protected()), nodes)

    return calling


def _normalizing(method: Method, state: Any, pod: Any, scores: Ints, feasible: Mask) -> Any:
    """It may normalize in place, as upstream's plugins do."""
    return _own(method(state, pod, scores.copy(), unwritable(feasible)))


def _placing(method: Method, group_state: Any, group: Any, parent: Placement) -> Any:
    answer = method(group_state, group, parent)
    return answer if isinstance(answer, Status) else [_own_placement(one, parent) for one in answer]


def _own_placement(answer: Any, parent: Placement) -> Placement:
    if not isinstance(answer, Placement) or not isinstance(answer.nodes, Nodes):
        raise unexpected("a Placement with Nodes", answer)
    rows, known = answer.nodes.rows, parent.nodes.table.n
    if rows is None:
        return answer
    if not isinstance(rows, np.ndarray) or rows.ndim != 1 or rows.dtype.kind not in "iu":
        raise unexpected("a Placement whose nodes are an array of row numbers", rows)
    own = np.array(rows, np.intp)
    if len(own) and not 0 <= int(own.min()) <= int(own.max()) < known:
        raise ValueError(f"want a Placement with rows from 0 to {known - 1}, got {int(own.min())} to {int(own.max())}")
    return Placement(parent.nodes.restricted(own), answer.name)


def _filtered(answer: object, nodes: Nodes) -> object:
    if not isinstance(answer, Rejections):
        return answer
    given: Iterable[Any] = answer.entries
    entries = tuple(_entry(entry, len(nodes)) for entry in given)
    return Rejections(_own_mask(answer.mask, len(nodes)), entries)


def _entry(entry: Any, count: int) -> Entry:
    given = entry  # compiled code would take its fields for what they are declared to be
    if not isinstance(entry, Entry):
        raise unexpected("Rejections whose entries are of type Entry", entry)
    if not isinstance(entry.code, Code):
        raise unexpected("a Code as the code of an Entry", entry.code)
    if not isinstance(given.reason, Reason):
        raise unexpected("a Reason as the reason of rejections", given.reason)
    return entry._replace(mask=_own_mask(entry.mask, count))


def _own_mask(mask: object, count: int) -> Mask:
    if not isinstance(mask, np.ndarray):
        raise unexpected(f"a mask of {count} nodes", mask)
    if mask.shape != (count,) or mask.dtype != np.bool_:
        raise TypeError(f"want a mask of {count} nodes (bool), got an array of {mask.dtype} with shape {mask.shape}")
    return np.array(mask)


def _scored(answer: object, nodes: Nodes) -> object:
    return _own(answer)


def _own(answer: object) -> object:
    return np.array(answer) if isinstance(answer, np.ndarray) else answer


def _pre_filtered(answer: Any, nodes: Nodes) -> object:
    given = answer
    if not isinstance(answer, PreFilterResult) or given.node_names is None:
        return answer
    names = given.node_names
    if not isinstance(names, frozenset | set) or not _all_names(names):
        raise unexpected("a set of node names in PreFilterResult", names)
    return PreFilterResult(frozenset(names))


def _all_names(names: Iterable[object]) -> bool:
    return all(isinstance(name, str) for name in names)


def _batched(method: Method, *args: Any) -> Any:
    answer = method(*args)
    # What else in-tree plugins return is updated with each pod, and cannot be checked.
    return answer if isinstance(answer, BatchState) and answer.changes_nothing else None


def _sets(method: Method, *args: Any) -> None:
    """Only in-tree plugins can give what cannot be checked."""


def _unchecked(answer: object, nodes: Nodes) -> object:
    return answer


_PROTECTING: dict[str, Method] = {
    "BatchState": _batched,
    "GuaranteedFeasibleSets": _sets,
    "PreFilter": _on_nodes(_pre_filtered),
    "Filter": _on_nodes(_filtered),
    "PreScore": _on_nodes(_unchecked),
    "Score": _on_nodes(_scored),
    "ScoreExtensionNormalize": _normalizing,
    "PlacementGenerate": _placing,
}
