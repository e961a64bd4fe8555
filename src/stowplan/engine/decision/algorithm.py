"""The scheduling algorithm for one pod: a node, or the reasons and a preemption plan.

`SchedulingAlgorithm` holds one framework per profile and the evaluations that equal pods share. It decides and changes
nothing; placing the pod is the caller's next step.

Upstream: pkg/scheduler/schedule_one.go; docs/behaviour.md, The scheduling cycle.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from stowplan.cluster.pod_info import scheduler_name_of
from stowplan.engine.decision.extender_words import refuse
from stowplan.engine.evaluation.evaluation import Evaluation
from stowplan.engine.evaluation.node_sums import NodeSums
from stowplan.engine.evaluation.sampling import Found, Sampling
from stowplan.engine.evaluation.scoring import INFEASIBLE
from stowplan.framework.metrics import ended, timed
from stowplan.framework.status import Code, Status, promised
from stowplan.inspection.frames import to_frame as frame_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from stowplan.cluster.pod_info import PodInfo
    from stowplan.cluster.state import ClusterState
    from stowplan.engine.decision.extender_words import ExtenderWords
    from stowplan.engine.evaluation.evaluation import Outcome
    from stowplan.engine.evaluation.scoring import Scored
    from stowplan.framework.cycle_state import CycleState
    from stowplan.framework.diagnosis import Diagnosis
    from stowplan.framework.eviction_plan import EvictionPlan
    from stowplan.framework.handle import Random
    from stowplan.framework.interface import PostFilterPlugin, PostFilterResult
    from stowplan.framework.runtime import Framework

    Rows = npt.NDArray[np.intp]

#: Attributes of an enumeration take their time.
_SUCCESS, _ERROR = Code.Success, Code.Error

NO_NODES = "no nodes available to schedule pods"
POST_FILTERS_SKIPPED = "All PostFilter plugins are skipped"

#: Evaluations that are kept at least and at most; in between, as many as these rows allow: each holds per-node arrays.
_MIN_EVALUATIONS, _MAX_EVALUATIONS, _MAX_ROWS = 64, 256, 1 << 18


# Not frozen: one is made for each attempt, and a frozen one takes four times as long to make.
@dataclass(slots=True, eq=False, repr=False)
class Decision:
    """What became of one attempt; not to be written to."""

    pod: PodInfo
    #: The chosen node; "" when there is none.
    node_name: str = ""
    #: Why there is none: a rejection, or an error.
    status: Status | None = None
    diagnosis: Diagnosis | None = None
    #: What PostFilter plugins said, by plugin, in the order in which they ran.
    post_filter: tuple[tuple[str, PostFilterResult], ...] = ()
    #: What plugins wrote in this attempt. Equal pods share it: who goes on with it works on a clone.
    state: CycleState | None = None
    #: Nodes that were judged.
    evaluated: int = 0
    #: Nodes that the choice was made from.
    feasible: int = 0

    def __repr__(self) -> str:
        if self.node_name:
            return f"<Decision: {self.pod.key} goes to {self.node_name}>"
        return f"<Decision: {self.pod.key} goes nowhere: {self.message}>"

    def to_dict(self) -> dict[str, Any]:
        """JSON-able: what became of the pod."""
        return {
            "pod": self.pod.key,
            "node": self.node_name,
            "message": self.message,
            "plugins": sorted(self.diagnosis.unschedulable_plugins) if self.diagnosis is not None else [],
            "nominatedNode": self.nominated_node_name or "",
            "evaluatedNodes": self.evaluated,
            "feasibleNodes": self.feasible,
        }

    def to_frame(self) -> Any:
        """A data frame with one row; `stowplan.to_frame` takes a list of decisions. Of pandas or polars."""
        return frame_of([self])

    def _repr_html_(self) -> str:
        """A table for notebooks; the scores and refusals of each node are in what `Cluster.explain` returns."""
        cells = {**self.to_dict(), "plugins": ", ".join(sorted(self.unschedulable_plugins))}
        rows = (f"<tr><th>{name}</th><td>{escape(str(value))}</td></tr>" for name, value in cells.items() if value)
        return f"<table>{''.join(rows)}</table>"

    @property
    def message(self) -> str:
        """The reference's text for a pod that found no node; "" for one that did."""
        return "" if self.status is None else self.status.message

    @property
    def nominated_node_name(self) -> str | None:
        """The node that preemption makes room on; "" when a nomination must go, None when it stays as it is."""
        if not self.post_filter:
            return ""
        last = self.post_filter[-1][1]
        if last.status.code in (Code.Unschedulable, Code.Pending):
            # Nobody had the last word: of those who said anything of a nomination, the last one counts.
            said = (result.nominated_node_name for _, result in reversed(self.post_filter))
            return next((name for name in said if name is not None), None)
        decided = last.status.code in (Code.Success, Code.UnschedulableAndUnresolvable)
        return last.nominated_node_name if decided else None

    @property
    def plan(self) -> EvictionPlan | None:
        """The evictions that make room on the nominated node; None when there are none to make."""
        return self.post_filter[-1][1].plan if self.post_filter else None

    @property
    def unschedulable_plugins(self) -> frozenset[str]:
        return frozenset() if self.diagnosis is None else self.diagnosis.unschedulable_plugins

    @property
    def pending_plugins(self) -> frozenset[str]:
        return frozenset() if self.diagnosis is None else self.diagnosis.pending_plugins


@dataclass(slots=True, eq=False)
class Judged:
    """A decision from which nothing follows, and what it was made from; good until the cluster changes."""

    decision: Decision
    #: What is said of each node; None when none was looked at, or looking failed.
    diagnosis: Diagnosis | None = None
    #: Rows that passed every filter.
    feasible: npt.NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    #: Of all feasible rows; None when there are none, or scoring failed.
    scored: Scored | None = None
    #: Whether the pod is nominated to the chosen node: then scores do not matter.
    nominated: bool = False
    #: Extender -> what it adds to the scores.
    points: dict[str, npt.NDArray[np.int64]] = field(default_factory=dict)
    #: What further PostFilter plugins would have said, had not one before them ended it with an error.
    unheard: tuple[tuple[str, PostFilterResult], ...] = ()


class SchedulingAlgorithm:
    """Decides for pods of several profiles on one cluster.

    `percentage_of_nodes_to_score` is for profiles that do not name their own; 0 stands for all.
    """

    def __init__(
        self,
        cluster: ClusterState,
        frameworks: dict[str, Framework],
        *,
        random: Random | None = None,
        reuse: bool = True,
        percentage_of_nodes_to_score: int = 0,
    ) -> None:
        self.cluster = cluster
        self.frameworks = frameworks
        self._random = random
        self._reuse = reuse
        self.sampling = Sampling(cluster.table, percentage_of_nodes_to_score)
        self._sums = {name: NodeSums(framework) for name, framework in frameworks.items()}
        self._evaluations: OrderedDict[tuple[str, Any], Evaluation] = OrderedDict()

    def reconfigure(self, *, percentage_of_nodes_to_score: int) -> None:
        """The profiles are others now."""
        self.sampling.reconfigure(percentage_of_nodes_to_score)
        self.forget()

    def forget(self) -> None:
        """Drop everything that equal pods share: a profile's plugins are others now."""
        self._evaluations.clear()
        self._sums = {name: NodeSums(framework) for name, framework in self.frameworks.items()}

    def framework_for(self, pod: PodInfo) -> Framework | None:
        """The profile that is responsible for a pod."""
        return self.frameworks.get(scheduler_name_of(pod.pod))

    def schedule(
        self, framework: Framework, pod: PodInfo, *, within: Rows | None = None, helped: bool = True
    ) -> Decision:
        """Find the best node for a pod.

        `within`: the rows that it may be on; None: all. Without `helped`, no PostFilter plugin is asked.
        """
        if not (self.cluster.table.count if within is None else len(within)):
            return without_nodes(pod)
        tried = row_tried_first(self.cluster, pod)
        if tried is not None and within is not None and tried not in within:
            tried = None
        evaluation, seconds = self._looked_up(framework, pod)
        if tried is None and within is None:
            decision = self._again(framework, evaluation, pod, seconds)
            if decision is not None:
                return decision
        outcome, found = self._searched(framework, evaluation, pod, tried, within, seconds)
        if isinstance(found, Status):
            return Decision(pod, status=found, state=outcome.state)
        if outcome.diagnosis is not None:
            if not helped:
                return unhelped(outcome.state, pod, outcome.diagnosis)
            return post_filtered(framework, outcome.state, pod, outcome.diagnosis)
        return self._chosen(framework, evaluation, outcome.state, pod, found)

    def filled(self, framework: Framework, pods: Sequence[PodInfo], *, within: Rows | None = None) -> list[Decision]:
        """Decide for pods that share an evaluation (`signature`) as if each stayed on its node; nobody is placed.

        These are the decisions that `schedule` would make, for as many of the first pods as can be told so: all of
        them, or those that fit, or none. They share a state.
        """
        listed = None if within is None else len(within)
        nodes = self.cluster.table.count if listed is None else listed
        if not nodes or self.sampling.stops_early(framework, listed=listed):
            return []
        if any(row_tried_first(self.cluster, pod) is not None for pod in pods):
            return []
        started = framework.now()
        evaluation = self.evaluation(framework, pods[0])
        outcome = evaluation.filter(pods[0], within=within)
        if outcome.error is not None or outcome.diagnosis is not None:
            return []
        filling = evaluation.filling(pods[0], outcome.feasible, {pod.shape: None for pod in pods}.keys())
        if filling is None:
            return []
        picks, names, state = filling.picks(len(pods), self.best), self.cluster.table.names, outcome.state.clone()
        if outcome.seen < nodes:
            self.sampling.saw(outcome.seen * len(picks), listed=listed)
        if framework.metrics is not None:
            seconds, scored = framework.now() - started, sum(pick.feasible > 1 for pick in picks)
            framework.metrics.decided_together(len(picks), seconds, scored=scored, reused=outcome.reused)
        return [
            Decision(pod, names[row], state=state, evaluated=outcome.seen, feasible=feasible)
            for pod, (row, feasible) in zip(pods, picks, strict=False)
        ]

    def refused(
        self, framework: Framework, like: Decision, pods: Sequence[PodInfo], *, within: Rows | None = None
    ) -> list[Decision]:
        """The decisions about pods that are equal to one that was refused just now, if they are refused alike; or none.

        Nothing has changed since, and `like` is what `schedule` said of it.
        """
        if not pods or like.status is None or not like.status.rejected or like.diagnosis is None:
            return []
        if any(row_tried_first(self.cluster, pod) is not None for pod in (like.pod, *pods)):
            return []
        outcome = self.evaluation(framework, like.pod).stands(like.diagnosis, pods)
        plugins = {plugin.name: plugin for plugin in framework.post_filter}
        answers = [(plugins[name], result) for name, result in like.post_filter]
        if outcome is None or not all(promised(lambda p=p, r=r: p.repeats(r, pods)) for p, r in answers):  # type: ignore[misc]
            return []
        for plugin, result in answers:
            plugin.repeated(result, pods)
        nodes = self.cluster.table.count if within is None else len(within)
        if outcome.seen < nodes:
            self.sampling.saw(outcome.seen * len(pods), listed=None if within is None else len(within))
        if framework.metrics is not None:
            framework.metrics.refused_alike(len(pods), helped=bool(answers))
        return [
            Decision(pod, "", like.status, like.diagnosis, like.post_filter, like.state, like.evaluated) for pod in pods
        ]

    def searched(
        self, framework: Framework, pod: PodInfo, tried: int | None, within: Rows | None = None
    ) -> tuple[Evaluation, Outcome, Found | Status]:
        """The verdict on the nodes, and those that the choice is made from; `tried`: a row that wins if it fits."""
        evaluation, seconds = self._looked_up(framework, pod)
        return evaluation, *self._searched(framework, evaluation, pod, tried, within, seconds)

    def _looked_up(self, framework: Framework, pod: PodInfo) -> tuple[Evaluation, float]:
        """The pod's evaluation, and the seconds that it took to find it; 0.0 where nobody measures."""
        if framework.metrics is None:
            return self.evaluation(framework, pod), 0.0
        started = framework.metrics.now()
        return self.evaluation(framework, pod), framework.metrics.now() - started

    def _again(self, framework: Framework, evaluation: Evaluation, pod: PodInfo, seconds: float) -> Decision | None:
        """The decision, if an equal pod has left nearly all of it; None if the nodes have to be searched.

        `seconds`: what it took to find the evaluation.
        """
        metrics = framework.metrics
        if self.sampling.stops_early(framework) or (metrics is not None and metrics.sample is not None):
            return None
        started = framework.now()
        standing = evaluation.standing(pod)
        if standing is None:
            return None
        if standing.seen < self.cluster.table.count:
            self.sampling.saw(standing.seen)
        ranked = standing.ranked
        if metrics is not None:
            took = framework.now() - started
            metrics.decided_again(took, preparing=evaluation.preparing, hint=seconds, scored=ranked is not None)
        if ranked is None:
            found = Found(standing.feasible, standing.feasible_count, standing.seen)
            return self._chosen(framework, evaluation, standing.state, pod, found)
        name = self.cluster.table.names[self.best(ranked)]
        return Decision(pod, name, state=standing.state, evaluated=standing.seen, feasible=standing.feasible_count)

    def _searched(
        self,
        framework: Framework,
        evaluation: Evaluation,
        pod: PodInfo,
        tried: int | None,
        within: Rows | None,
        seconds: float,
    ) -> tuple[Outcome, Found | Status]:
        metrics = framework.metrics
        if metrics is None:
            return self._search(framework, evaluation, pod, tried, within)
        started = metrics.now()
        outcome, found = self._search(framework, evaluation, pod, tried, within)
        early, failed = outcome.ended_early, isinstance(found, Status)
        metrics.points["PreFilter"].took(outcome.preparing, ended(early))
        if early is None:
            # What PreFilter took is no part of it.
            metrics.points["Filter"].ran(started + outcome.preparing, _ERROR if failed else _SUCCESS)
            placed = not failed and outcome.diagnosis is None
            metrics.hinted(outcome.reused, seconds=seconds, used=placed)
        return outcome, found

    def _search(
        self, framework: Framework, evaluation: Evaluation, pod: PodInfo, tried: int | None, within: Rows | None
    ) -> tuple[Outcome, Found | Status]:
        listed = None if within is None else len(within)
        early = self.sampling.stops_early(framework, listed=listed)
        outcome = evaluation.filter(pod, one_by_one=not early, within=within)
        found = self._found(framework, evaluation, outcome, pod, tried, listed, early=early)
        if isinstance(found, Found) and not found.feasible_count and outcome.diagnosis is None:
            # Plugins that look at nodes one by one left none: now the reasons count.
            preparing = outcome.preparing
            outcome = evaluation.filter(pod, within=within)
            outcome.preparing += preparing
            found = self._found(framework, evaluation, outcome, pod, tried, listed, early=early)
        return outcome, found

    def _found(
        self,
        framework: Framework,
        evaluation: Evaluation,
        outcome: Outcome,
        pod: PodInfo,
        tried: int | None,
        listed: int | None,
        *,
        early: bool,
    ) -> Found | Status:
        """The nodes that the choice is made from; none when nothing fits. `listed`: how many there are; None: all."""
        if outcome.error is not None:
            return outcome.error
        feasible, seen = outcome.feasible, outcome.seen
        if outcome.diagnosis is None:
            if tried is not None and feasible[tried] and evaluation.passes(pod, tried):
                # It wins without scoring, and the search has not begun.
                only = np.zeros(len(feasible), np.bool_)
                only[tried] = True
                return Found(only, 1, 1)
            if early:
                return self.sampling.search(
                    framework,
                    outcome.examined,
                    feasible,
                    ask=lambda rows: evaluation.passing(pod, rows),
                    tried=tried,
                    listed=listed,
                )
        if seen < (self.cluster.table.count if listed is None else listed):
            self.sampling.saw(seen, listed=listed)
        return Found(feasible, int(np.count_nonzero(feasible)), seen)

    def _chosen(
        self, framework: Framework, evaluation: Evaluation, state: CycleState, pod: PodInfo, found: Found
    ) -> Decision:
        if found.feasible_count == 1:
            # A single feasible node is taken without scoring.
            row = int(found.feasible.argmax())
        else:
            scored = scored_nodes(framework, evaluation, pod, found.feasible)
            if scored.error is not None:
                return Decision(pod, status=scored.error, state=state)
            row = self.best(scored.ranked)
        name = self.cluster.table.names[row]
        return Decision(pod, name, state=state, evaluated=found.evaluated, feasible=found.feasible_count)

    # -- asking -------------------------------------------------------------------------------------------------------

    def judge(self, framework: Framework, pod: PodInfo, extenders: ExtenderWords | None = None) -> Judged:
        """Decide with every node and every plugin's word, as if it were asked for; see `CycleState.asking`.

        Sampling leaves nothing out and does not move on, nothing is shared with equal pods, no chance is drawn on.
        `extenders` of None: they have no say.
        """
        if not self.cluster.table.count:
            return Judged(without_nodes(pod))
        evaluation, outcome = self.filtered(framework, pod)
        state = outcome.state
        if outcome.error is not None:
            return Judged(Decision(pod, status=outcome.error, state=state))
        if outcome.diagnosis is not None:
            decision = post_filtered(framework, state, pod, outcome.diagnosis)
            unheard = _unheard(framework, state, pod, outcome.diagnosis, decision)
            return Judged(decision, outcome.diagnosis, outcome.feasible, unheard=unheard)
        diagnosis, feasible = evaluation.diagnosis(outcome.refused), outcome.feasible
        if extenders is not None:
            feasible = self._left(extenders, diagnosis, feasible)
            if extenders.error is not None or extenders.wanted:
                return Judged(Decision(pod, status=extenders.error, state=state), diagnosis, feasible)
            if not feasible.any():
                return Judged(post_filtered(framework, state, pod, diagnosis), diagnosis, feasible)
        scored = scored_nodes(framework, evaluation, pod, feasible)
        if scored.error is not None:
            return Judged(Decision(pod, status=scored.error, state=state), diagnosis, feasible)
        totals = scored.ranked
        points = self._points(extenders, feasible) if extenders is not None else {}
        if points:
            totals = totals + sum(points.values())
        tried = row_tried_first(self.cluster, pod)
        nominated = tried is not None and bool(feasible[tried])
        row = tried if tried is not None and nominated else int(np.where(feasible, totals, INFEASIBLE).argmax())
        decision = Decision(pod, self.cluster.table.names[row], state=state)
        return Judged(decision, diagnosis, feasible, scored, nominated, points)

    def _left(
        self, extenders: ExtenderWords, diagnosis: Diagnosis, feasible: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.bool_]:
        """The rows that extenders leave of these; the diagnosis says why not the others."""
        table = self.cluster.table
        rows = table.order.rows[feasible[table.order.rows]]
        names = set(extenders.left([node for row in rows.tolist() if (node := table.nodes[row]) is not None]))
        left = np.zeros(len(feasible), np.bool_)
        left[[row for row in rows.tolist() if table.names[row] in names]] = True
        refuse(diagnosis, table.names, np.flatnonzero(feasible & ~left), extenders.refused, narrowed=extenders.narrowed)
        return left

    def _points(self, extenders: ExtenderWords, feasible: npt.NDArray[np.bool_]) -> dict[str, npt.NDArray[np.int64]]:
        """Extender -> what it adds to the scores; a single node is not scored."""
        table = self.cluster.table
        rows = np.flatnonzero(feasible).tolist()
        if len(rows) < 2:
            return {}
        found = {}
        for name, points in extenders.points([node for row in rows if (node := table.nodes[row]) is not None]).items():
            added = found[name] = np.zeros(len(feasible), np.int64)
            for row in rows:
                added[row] = points.get(table.names[row], 0)
        return found

    @staticmethod
    def filtered(framework: Framework, pod: PodInfo) -> tuple[Evaluation, Outcome]:
        """What the filters say of every node when they are only asked."""
        evaluation = Evaluation(framework, asking=True, reusable=False)
        return evaluation, evaluation.filter(pod)

    # -- parts --------------------------------------------------------------------------------------------------------

    def evaluation(self, framework: Framework, pod: PodInfo) -> Evaluation:
        """The nodes as the pod's equals see them."""
        signature = framework.signature(pod) if self._reuse else None
        if signature is None:
            return Evaluation(framework, reusable=False)
        key = (framework.profile_name, signature)
        found = self._evaluations.get(key)
        if found is None:
            found = self._evaluations[key] = Evaluation(framework, self._sums[framework.profile_name])
            if len(self._evaluations) > self._most_evaluations():
                self._evaluations.popitem(last=False)
        else:
            self._evaluations.move_to_end(key)
        return found

    def _most_evaluations(self) -> int:
        affordable = _MAX_ROWS // max(1, self.cluster.table.n)
        return min(max(_MIN_EVALUATIONS, affordable), _MAX_EVALUATIONS)

    def best(self, totals: npt.NDArray[np.int64]) -> int:
        """The row with the highest total; among equals the first, or any when there is chance."""
        best = int(totals.argmax())
        if self._random is None:
            return best
        equal = (totals == totals[best]).nonzero()[0]
        return int(equal[self._random.randrange(len(equal))]) if len(equal) > 1 else best


def scored_nodes(framework: Framework, evaluation: Evaluation, pod: PodInfo, feasible: npt.NDArray[np.bool_]) -> Scored:
    """What the feasible nodes are worth; good until the evaluation is used again."""
    metrics = framework.metrics
    if metrics is None or evaluation.asking or not framework.score:
        return evaluation.score(pod, feasible)
    started = metrics.now()
    scored = evaluation.score(pod, feasible)
    code = _SUCCESS if scored.error is None else _ERROR
    metrics.points["PreScore"].took(scored.preparing, _ERROR if scored.ended_early else _SUCCESS)
    if not scored.ended_early:
        metrics.points["Score"].ran(started + scored.preparing, code)
    return scored


def without_nodes(pod: PodInfo) -> Decision:
    """The decision where there is no node at all."""
    return Decision(pod, status=Status(Code.UnschedulableAndUnresolvable, error=RuntimeError(NO_NODES)))


def row_tried_first(cluster: ClusterState, pod: PodInfo) -> int | None:
    """The node that the pod is nominated to: if it takes the pod now, it wins without scoring."""
    name = cluster.nominator.node_of(pod.uid) or pod.pod.status.nominated_node_name
    return cluster.table.row_of.get(name) if name else None


def post_filtered(framework: Framework, state: CycleState, pod: PodInfo, diagnosis: Diagnosis) -> Decision:
    """Let PostFilter plugins try to help a pod that fits nowhere; a question is not put to those with effects."""
    plugins, run = framework.post_filter, _timed_post_filter
    if state.asking:
        plugins, run = framework.effect_free_post_filter, _run_post_filter
    if not plugins:
        return PostFilterAnswers().decision(state, pod, diagnosis)
    state = state.clone()  # equal pods are refused with the same state: what a plugin writes is this pod's alone
    return run(framework, plugins, state, pod, diagnosis).decision(state, pod, diagnosis)


def unhelped(state: CycleState, pod: PodInfo, diagnosis: Diagnosis) -> Decision:
    """The decision about a pod that fits nowhere, where no PostFilter plugin is to help it."""
    status = Status(Code.Unschedulable, (diagnosis.message(POST_FILTERS_SKIPPED),))
    return Decision(pod, "", status, diagnosis, (), state, diagnosis.evaluated)


def _unheard(
    framework: Framework, state: CycleState, pod: PodInfo, diagnosis: Diagnosis, decision: Decision
) -> tuple[tuple[str, PostFilterResult], ...]:
    """What plugins after the last that was asked say; those that would help do not, as they are not asked."""
    plugins = framework.effect_free_post_filter[len(decision.post_filter) :]
    if not decision.post_filter or decision.post_filter[-1][1].status.code != Code.Error:
        return ()
    answers = ((plugin.name, framework.run_post_filter(plugin, state, pod, diagnosis)) for plugin in plugins)
    return tuple((name, answer) for name, answer in answers if answer.status.code != Code.Success)


class PostFilterAnswers:
    """What PostFilter plugins said, up to the one that had the last word, and their messages."""

    def __init__(self) -> None:
        self._results: list[tuple[str, PostFilterResult]] = []
        self._messages: list[str] = []

    def add(self, plugin: PostFilterPlugin, result: PostFilterResult) -> bool:
        """Whether that was the last word."""
        self._results.append((plugin.name, result))
        if result.status.code == Code.Success:
            return True
        if result.status.code not in (Code.Unschedulable, Code.Pending):
            final = result.status.code == Code.UnschedulableAndUnresolvable
            self._messages = [result.status.message if final else str(result.status.cause)]
            return True
        self._messages += result.status.shown_reasons
        return False

    @property
    def code(self) -> Code:
        """How the point ended; some plugin has answered."""
        last = self._results[-1][1].status.code
        if last == Code.Pending:
            return Code.Unschedulable
        return last if last in (Code.Success, Code.Unschedulable, Code.UnschedulableAndUnresolvable) else Code.Error

    def decision(self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis) -> Decision:
        results = tuple(self._results)
        succeeded = bool(results) and results[-1][1].status.code == Code.Success
        text = diagnosis.message("" if succeeded else ", ".join(self._messages))
        status = Status(Code.Unschedulable, (text,))
        return Decision(pod, "", status, diagnosis, results, state, diagnosis.evaluated)


def _run_post_filter(
    framework: Framework, plugins: Sequence[PostFilterPlugin], state: CycleState, pod: PodInfo, diagnosis: Diagnosis
) -> PostFilterAnswers:
    answers = PostFilterAnswers()
    for plugin in plugins:
        if answers.add(plugin, framework.run_post_filter(plugin, state, pod, diagnosis)):
            break
    return answers


_timed_post_filter = timed("PostFilter", lambda answers: answers.code)(_run_post_filter)
