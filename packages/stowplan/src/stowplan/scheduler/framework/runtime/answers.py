"""Validate what plugins return: scores, PostFilter results, eviction plans. Invalid values raise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.framework.eviction_plan import EvictionPlan
from stowplan.scheduler.framework.interface import PostFilterPlugin, PostFilterResult, PreFilterResult
from stowplan.scheduler.framework.rejections import Rejections
from stowplan.scheduler.framework.status import Code, Status, error, raised, unexpected, well_formed, wrapped

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    import numpy.typing as npt


_SCORES = np.dtype(np.int64)


def checked_scores(count: int, answer: object) -> npt.NDArray[np.int64] | Status:
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
    if not isinstance(plan.victims, tuple) or not all(isinstance(victim, PodInfo) for victim in plan.victims):
        raise unexpected("an EvictionPlan whose victims are a tuple of PodInfo", plan.victims)
    if plan.node_name != answer.nominated_node_name:
        raise ValueError(f"an eviction plan for node {plan.node_name} with nominated node {answer.nominated_node_name}")


def out_of_range(point: str, plugin: str, score: int) -> Status:
    return error(
        f'applying score defaultWeights on {point} plugins: plugin "{plugin}" returns an invalid score {score}, '
        "it should in the range of [0, 100] after normalizing"
    )
