"""Judge a pod group without side effects.

The group's pods without a node are tried as in `group_cycle`, next to those that have one. If all pods have nodes, the
group is judged as if none had. Pods that PreEnqueue gates are left out, as the queue would not release them; if all are
gated, they are tried nevertheless, because the question is whether there is room. The group of a tree is judged with
the whole tree, whose other pods are tried, too.

Extenders are called only for callers that can wait in the middle of a question. Otherwise the group is judged without
them, and the judgement lists them.

Upstream: none; the trial is pkg/scheduler/schedule_one_podgroup.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec.structs import replace

from stowplan.kube.api.types import PodGroup
from stowplan.kube.compiled import mypyc_attr
from stowplan.kube.klog import without_log
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.pod_info import PodInfo, group_key, scheduler_name_of
from stowplan.scheduler.engine.decision.cycle_steps import MAX_PORTIONS, CycleSteps, run_at_once
from stowplan.scheduler.engine.decision.questions import NOT_EFFECT_FREE, is_interested, not_asked_to, unplaced
from stowplan.scheduler.engine.groups.group_validation import group_problem
from stowplan.scheduler.framework.interface import Placement
from stowplan.scheduler.framework.requests import Ask, Outcome
from stowplan.scheduler.framework.runtime.framework import Framework
from stowplan.scheduler.framework.status import Code, Status, error
from stowplan.scheduler.queue.queued_pod import QueuedPod

if TYPE_CHECKING:
    from stowplan.scheduler.cluster.state import ClusterState
    from stowplan.scheduler.engine.decision.algorithm import SchedulingAlgorithm
    from stowplan.scheduler.engine.groups.group_preemption import GroupPreemption
    from stowplan.scheduler.engine.groups.group_trials import GroupTrial, GroupTrials, TriedPod

WITHOUT_GATE = "the gate GenericWorkload is off: its pods are scheduled one by one"


class PlacedPod(PlainStruct, frozen=True, kw_only=True):
    """A pod that fits into a domain along with the others."""

    pod: PodInfo
    node: str
    #: Pods to evict first.
    victims: tuple[str, ...] = ()


class RefusedPod(PlainStruct, frozen=True, kw_only=True):
    """A pod that does not fit into a domain after those before it."""

    pod: PodInfo
    #: The message of its status, and the one without PostFilter's part.
    message: str
    reason: str
    plugins: tuple[str, ...] = ()


class DomainJudgement(PlainStruct, kw_only=True):
    """The group's trial in one domain; the unnamed one is the whole cluster."""

    name: str
    nodes: tuple[str, ...]
    status: Status
    #: Whether the group fits after evictions.
    waiting: bool
    placed: tuple[PlacedPod, ...]
    refused: tuple[RefusedPod, ...]
    #: Pods to evict for the group as a whole.
    victims: tuple[str, ...] = ()
    chosen: bool = False

    @property
    def works(self) -> bool:
        return self.status.code == Code.Success or self.waiting


@mypyc_attr(native_class=False)
@dataclass(kw_only=True)
class GroupJudgement:
    """The scheduler's verdict on a group: a snapshot."""

    group: str
    #: The version of the judged cluster.
    version: tuple[int, ...]
    #: The PodGroup object; None if there is none.
    pod_group: PodGroup | None
    #: Pods on trial, in order, and those that keep their nodes.
    pods: tuple[PodInfo, ...] = ()
    staying: tuple[PodInfo, ...] = ()
    #: Whether all pods had nodes, and were judged as if they had not.
    judged_as_pending: bool = False
    #: Pods that PreEnqueue gates -> why.
    gated: dict[str, Status] = field(default_factory=dict)
    status: Status
    waiting: bool = False
    #: In the order in which they were tried.
    domains: tuple[DomainJudgement, ...] = ()
    #: Extenders that an attempt would call and the question did not -> why.
    not_asked: Mapping[str, str] = field(default_factory=dict)


class GroupQuestion:
    """One group; only valid within `Engine.asking_about_group`."""

    def __init__(
        self,
        algorithm: SchedulingAlgorithm,
        trials: GroupTrials | None,
        preemption: GroupPreemption | None,
        group: str,
        *,
        version: tuple[int, ...],
    ) -> None:
        """`trials` of None: pod groups are disabled; `preemption` of None: groups do not preempt as a whole.

        `version`: the cluster's before the question.
        """
        self._algorithm = algorithm
        self._trials = trials
        self._preemption = preemption
        self._group = group
        self._version = version
        self._state: ClusterState = algorithm.cluster
        #: The root of the group's tree; without a complete one, the group.
        self._tried = self._state.group_trees.root(group) or group

    @without_log()
    def judgement(self, *, preempts: bool = True, ask: Callable[[Ask], Outcome] | None = None) -> GroupJudgement:
        """Judge the group. Without `preempts`, there is no search for victims for the group as a whole.

        `ask` calls an extender; None skips extenders.
        """
        state, trees = self._state, self._state.group_trees
        pending, staying = trees.unscheduled(self._tried), tuple(trees.placed(self._tried))
        as_pending = not pending and bool(staying)
        if as_pending:
            pending, staying = [self._taken_off(info) for info in staying], ()
        found = GroupJudgement(
            group=self._group,
            version=self._version,
            pod_group=state.objects.get(PodGroup, self._group),
            staying=staying,
            judged_as_pending=as_pending,
            status=error(WITHOUT_GATE),
        )
        if self._trials is None:
            return found
        framework = self._framework(found, pending)
        if framework is not None:
            with framework.unmeasured(), nullcontext() if ask else framework.without_extenders():
                self._judge(found, framework, pending, preempts=preempts, ask=ask)
            if ask is None:
                found.not_asked = dict(_not_asked(framework, found.pods))
        return found

    def _taken_off(self, info: PodInfo) -> PodInfo:
        state = self._state
        free = unplaced(state, info)
        state.remove_pod(info.uid)
        state.pending.put(free)
        return free

    def _framework(self, found: GroupJudgement, pods: Sequence[PodInfo]) -> Framework | None:
        """The profile of all pods, or why the group cannot be judged."""
        if not pods:
            found.status = error(f"pod group {self._group} has no pods")
            return None
        framework = self._algorithm.framework_for(pods[0])
        names = dict.fromkeys(scheduler_name_of(info.pod) for info in pods)
        if len(names) > 1:
            found.status = error(f"its pods are for several schedulers: {', '.join(sorted(names))}")
        elif framework is None:
            found.status = error(f'no profile for scheduler name "{next(iter(names))}" in the configuration')
        elif len(framework.effect_free_post_filter) < len(framework.post_filter):
            others = (
                plugin.name for plugin in framework.post_filter if plugin not in framework.effect_free_post_filter
            )
            found.status = error(f"{', '.join(others)}: {NOT_EFFECT_FREE}")
        elif text := group_problem(self._state, self._tried, pods, framework.handle.features):
            found.status = error(text)
        else:
            return framework
        return None

    def _judge(
        self,
        found: GroupJudgement,
        framework: Framework,
        pending: Sequence[PodInfo],
        *,
        preempts: bool,
        ask: Callable[[Ask], Outcome] | None,
    ) -> None:
        assert self._trials is not None
        for info in pending:
            if (status := framework.run_pre_enqueue(info)) is not None:
                found.gated[info.key] = status
        tried = [info for info in pending if info.key not in found.gated] or list(pending)
        # Like the queue's order of pods of a group that were never tried.
        tried.sort(key=lambda info: -info.priority)
        found.pods, found.staying = tuple(self._own(tried)), tuple(self._own(found.staying))
        queued = [QueuedPod(pod=info, key=info.key, timestamp=0.0) for info in tried]
        steps = self._decide(framework, queued, self._preemption if preempts else None)
        trial = run_at_once(steps, ask=ask, max_portions=MAX_PORTIONS * len(queued))
        own = trial.members.get(self._group, trial)
        found.status, found.waiting = own.status, own.waiting
        found.domains = tuple(self._domains(own, trial, tried))

    def _own(self, pods: Sequence[PodInfo]) -> list[PodInfo]:
        """Those of the group that was asked about."""
        return [info for info in pods if group_key(info.pod) == self._group]

    def _decide(
        self, framework: Framework, queued: Sequence[QueuedPod], preemption: GroupPreemption | None
    ) -> CycleSteps[GroupTrial]:
        assert self._trials is not None
        trial = yield from self._trials.run(framework, self._tried, queued)
        if preemption is not None:
            yield from preemption.help(framework, self._tried, queued, trial)
        return trial

    def _domains(self, trial: GroupTrial, root: GroupTrial, pods: Sequence[PodInfo]) -> Iterator[DomainJudgement]:
        """`root`: the trial of the tree that the group is in, or its own."""
        names = self._state.table.names
        if trial is not root:
            pods = self._own(pods)
            trial = replace(trial, plan=root.plan)
        if not trial.placements or trial.plan is not None:
            # The victims of preemption for the group as a whole are anywhere in the cluster.
            yield _domain("", tuple(name for name in names if name), trial, pods, chosen=True)
            return
        for placement, of_placement in trial.placements:
            chosen = of_placement is trial
            yield _domain(placement.name, _nodes(placement, names), of_placement, pods, chosen=chosen)


def _not_asked(framework: Framework, pods: Sequence[PodInfo]) -> Iterator[tuple[str, str]]:
    for extender in framework.handle.extenders():
        points = {"filter": extender.filters, "prioritize": extender.prioritizes, "preempt": extender.preempts}
        verbs = [verb for verb, has in points.items() if has]
        if verbs and any(is_interested(extender, info) for info in pods):
            yield extender.name, not_asked_to(verbs)


def _nodes(placement: Placement, names: Sequence[str]) -> tuple[str, ...]:
    rows = placement.nodes.rows
    return tuple(names if rows is None else (names[row] for row in rows.tolist()))


def _domain(
    name: str, nodes: tuple[str, ...], trial: GroupTrial, pods: Sequence[PodInfo], *, chosen: bool
) -> DomainJudgement:
    tried = {pod.queued.pod.uid for pod in trial.pods}
    # A rejection ends a trial early since 1.37, once the group can no longer be complete.
    others = [info for info in pods if info.uid not in tried] if trial.status.rejected else []
    message = (trial.before_preemption or trial.status).message
    return DomainJudgement(
        name=name,
        nodes=nodes,
        status=trial.status,
        waiting=trial.waiting,
        placed=tuple(_placed(pod) for pod in trial.pods if pod.placed),
        refused=(
            *(_refused(pod) for pod in trial.pods if not pod.placed),
            *(RefusedPod(pod=info, message=message, reason=message) for info in others),
        ),
        victims=() if trial.plan is None else tuple(victim.key for victim in trial.plan.victims),
        chosen=chosen,
    )


def _placed(tried: TriedPod) -> PlacedPod:
    plan = tried.decision.plan if tried.needs_preemption else None
    victims = () if plan is None else tuple(victim.key for victim in plan.victims)
    return PlacedPod(pod=tried.queued.pod, node=tried.host, victims=victims)


def _refused(tried: TriedPod) -> RefusedPod:
    diagnosis, message = tried.decision.diagnosis, tried.status.message
    reason = message if diagnosis is None or tried.failed is not None else diagnosis.message()
    plugins = tuple(sorted(tried.decision.unschedulable_plugins))
    return RefusedPod(pod=tried.queued.pod, message=message, reason=reason, plugins=plugins)
