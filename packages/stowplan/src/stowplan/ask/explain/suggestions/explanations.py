"""Explanations of the plugins of a profile: a verdict with access to its cluster, to compute details on demand.

Details must be computed on the same cluster, so the engine is asked about the same pod again; a placed pod is off its
node during the inspection. If the cluster has changed since the verdict, this raises.

A plugin whose explanation raises is explained by its reasons alone, so a bug in it only costs details.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from stowplan.ask.explain.verdicts.verdict import Verdict, for_nominated
from stowplan.kube.klog import get_logger
from stowplan.scheduler.cluster.arrays import Rows, Values
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.engine.decision.questions import Question
from stowplan.scheduler.framework.boundary import At, Raised, call
from stowplan.scheduler.framework.boundary import listed as listed_by_plugin
from stowplan.scheduler.framework.diagnosis import Diagnosis
from stowplan.scheduler.framework.explanations.explanation import Explanation
from stowplan.scheduler.framework.explanations.formatting import listed
from stowplan.scheduler.framework.explanations.inspection import Inspection
from stowplan.scheduler.framework.explanations.remedy import Remedy, Way

if TYPE_CHECKING:
    from stowplan.scheduler.engine.engine import Engine
    from stowplan.scheduler.framework.explanations.remedy import Refusal


class VerdictInspection(Inspection):
    """The inspection of one verdict, with its profile."""

    def __init__(self, question: Question, verdict: Verdict) -> None:
        super().__init__(question.cluster, verdict.pod, verdict.diagnosis)
        self.question = question
        self.framework = question.framework
        self.verdict = verdict
        self.current_node = verdict.current_node

    def of(self, pod: PodInfo) -> VerdictInspection:
        """An inspection of the same cluster with another version of the pod."""
        other = VerdictInspection(self.question, self.verdict)
        other.pod, other.diagnosis = pod, self.filtered(pod)
        return other

    def filtered(self, pod: PodInfo) -> Diagnosis | None:
        return self.question.diagnosis(pod)


@contextmanager
def inspecting(engine: Engine, verdict: Verdict) -> Iterator[VerdictInspection]:
    """An inspection of the cluster as the verdict saw it; raises StaleVerdictError if it has changed."""
    verdict.check_current(engine.state)
    with engine.asking(verdict.pod) as question:
        yield VerdictInspection(question, verdict)


T = TypeVar("T")

#: Extension points that reject a pod, in the order in which obstacles are listed.
_REFUSING_POINTS = ("filter", "preFilter", "preEnqueue")

_log = get_logger(__name__)


class Explanations:
    """The plugins' explanations, each created once."""

    def __init__(self, inspection: VerdictInspection) -> None:
        self._inspection = inspection
        self._made: dict[str, Explanation] = {}

    def _of(self, plugin: str) -> Explanation:
        found = self._made.get(plugin)
        if found is None:
            found = self._made[plugin] = self._make(plugin)
        return found

    def _make(self, name: str) -> Explanation:
        plain = Explanation(self._inspection)
        # Several plugins may have restricted the nodes together: the name is then a list.
        plugin = self._inspection.framework.plugins.get(name)
        if plugin is None:
            return plain
        found = guarded(name, plugin.explanation, None, self._inspection, at=("Explanation", plugin))
        return found if isinstance(found, Explanation) else plain

    def _ask(self, name: str, otherwise: T, ask: Callable[..., T], *args: Any) -> T:
        """Call a method of a plugin's explanation, which is the plugin's code."""
        plugin = self._inspection.framework.plugins.get(name)
        return guarded(name, ask, otherwise, *args, at=None if plugin is None else ("Explanation", plugin))

    # -- details ------------------------------------------------------------------------------------------------------

    def of_node(self, refusal: Refusal, row: int) -> str:
        """All details of one node of a group."""
        if row in self._kept_rows:
            return self._kept_for([row])
        return self._ask(refusal.plugin, "", self._of(refusal.plugin).of_node, refusal, row)

    def of_group(self, refusal: Refusal) -> str:
        """The details of a group of nodes, in one line."""
        if int(refusal.rows[0]) in self._kept_rows:
            return self._kept_for(refusal.rows.tolist())
        return self._ask(refusal.plugin, "", self._of(refusal.plugin).of_group, refusal)

    @cached_property
    def _kept_rows(self) -> frozenset[int]:
        """Nodes that only the pods nominated to them make infeasible; their plugins see nothing wrong with them."""
        diagnosis = self._inspection.diagnosis
        return frozenset() if diagnosis is None else frozenset(for_nominated(diagnosis))

    def _kept_for(self, rows: Sequence[int]) -> str:
        pod, nominator = self._inspection.pod, self._inspection.cluster.nominator
        others = (info for name in self._inspection.named(rows) for info in nominator.on(name))
        ahead = [info.key for info in others if info.key != pod.key and info.priority >= pod.priority]
        return f"room is kept for {listed(ahead, 2)}"

    def reason_text(self, refusal: Refusal) -> str:
        return self._ask(refusal.plugin, refusal.text, self._of(refusal.plugin).reason_text, refusal)

    # -- obstacles and remedies ---------------------------------------------------------------------------------------

    def obstacles(self) -> list[str]:
        """Facts that make every node infeasible; the hardest to change first, then in the profile's order."""
        points = self._inspection.framework.points
        names = dict.fromkeys(name for point in _REFUSING_POINTS for name in points[point])
        ordered = sorted(names, key=lambda name: not self._of(name).obstacles_first)
        return [text for name in ordered for text in self._obstacles(name)]

    def _obstacles(self, name: str) -> list[str]:
        return list(map(str, self._ask(name, [], listed_by_plugin, self._of(name).obstacles)))

    def facts(self) -> list[str]:
        """What plugins say of the pod whether it fits or not."""
        return [text for name in self._inspection.framework.plugins for text in self._facts(name)]

    def _facts(self, name: str) -> list[str]:
        return list(map(str, self._ask(name, [], listed_by_plugin, self._of(name).facts)))

    def of_scores(self, row: int) -> dict[str, str]:
        """Plugin -> what its score of a node rests on."""
        found = {name: self._ask(name, "", self._of(name).of_score, row) for name in self._inspection.verdict.scores}
        return {name: text for name, text in found.items() if text}

    def remedies(self) -> dict[str, Remedy]:
        """Plugin -> remedy, for every plugin that rejects some node."""
        return {name: self._remedy(name, mask) for name, mask in self._inspection.masks.items()}

    def _remedy(self, name: str, mask: Values) -> Remedy:
        remedy = self._ask(name, None, self._of(name).remedy, mask)
        if remedy is not None and remedy.classes.shape != mask.shape:
            _log.error(None, "a plugin's remedy, which needs one class for each row, is left out", plugin=name)
            remedy = None
        return remedy or Remedy(self._inspection, mask)

    def ways(self, plugin: str, remedy: Remedy, kind: int, rows: Rows) -> list[Way]:
        return self._ask(plugin, [], listed_by_plugin, remedy.ways, kind, rows)

    def ways_for_pod(self, plugin: str) -> Sequence[Way]:
        """Ways to resolve a plugin's rejection of the pod as a whole."""
        return self._ask(plugin, [], listed_by_plugin, self._of(plugin).ways_for_pod)

    def remedies_cover(self, plugins: frozenset[str]) -> bool:
        """Whether the Filters of these plugins reject all nodes that their PreFilters excluded."""
        return all(self._of(name).filter_repeats_pre_filter for name in plugins)


def guarded(plugin: str, ask: Callable[..., T], otherwise: T, *args: Any, at: At | None = None) -> T:
    """The result, or `otherwise` if the plugin's explanation raises."""
    found = call(ask, *args, check=None, failed=Raised, at=at)
    if not isinstance(found, Raised):
        return found
    _log.error(found.cause, "a plugin's explanation failed and is left out", plugin=plugin)
    return otherwise
