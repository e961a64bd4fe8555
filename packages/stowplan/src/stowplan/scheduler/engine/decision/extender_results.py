"""Extender results for a question: the remaining nodes, and scores.

Requests take time, and a question to the engine must not wait. So the pod is judged repeatedly, each time with the
answers received so far. `wanted` lists the requests that are still missing; the judgement is complete once it is empty.
Questions use only the verbs filter and prioritize; preempt and bind are only used in attempts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import field

from stowplan.kube.api.types import Node
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.arrays import Rows
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.framework.diagnosis import Diagnosis
from stowplan.scheduler.framework.extender import EXTENDER, MAX_EXTENDER_SCORE, Extender, Filtered, answer_of
from stowplan.scheduler.framework.interface import MAX_SCORE
from stowplan.scheduler.framework.rejections import from_statuses
from stowplan.scheduler.framework.requests import Ask, Outcome
from stowplan.scheduler.framework.status import Status, error, unresolvable, unschedulable

#: What one point of an extender adds to a score, at weight 1.
SCORE_FACTOR = MAX_SCORE // MAX_EXTENDER_SCORE

#: Extender and verb.
RequestKey = tuple[str, str]


class ExtenderResult(PlainStruct, frozen=True):
    """An extender's answer to one request."""

    extender: str
    #: filter or prioritize.
    verb: str
    #: Number of nodes in the request.
    asked: int
    #: For filter: node -> reason; "" for nodes that were omitted without a reason.
    refused: Mapping[str, str] = field(default_factory=dict)
    #: For prioritize: node -> what is added to its score.
    points: Mapping[str, int] = field(default_factory=dict)
    #: Why there is no answer; "" if there is one.
    failed: str = ""


class ExtenderResults:
    """The known answers for one pod."""

    def __init__(self, extenders: Sequence[Extender], pod: PodInfo, answers: Mapping[RequestKey, Outcome]) -> None:
        self._extenders = [extender for extender in extenders if extender.is_interested(pod)]
        self._pod = pod
        self._answers = answers
        #: Requests that are needed before the pod can be judged.
        self.wanted: tuple[Ask, ...] = ()
        self.results: list[ExtenderResult] = []
        #: The error that would end an attempt.
        self.error: Status | None = None
        #: Node -> the rejection by an extender.
        self.refused: dict[str, Status] = {}
        self.narrowed = False

    # -- filter -------------------------------------------------------------------------------------------------------

    def left(self, nodes: Sequence[Node]) -> list[str]:
        """The names of the remaining nodes; incomplete while there are `wanted` requests."""
        by_name = {node.metadata.name: node for node in nodes}
        for extender in self._extenders:
            if not extender.filters or not by_name:
                continue
            outcome = self._answers.get((extender.name, "filter"))
            try:
                if outcome is None:
                    question = extender.filter_question(self._pod, list(by_name.values()))
                    self.wanted = (Ask(who=extender.name, verb="filter", question=question),)
                    break
                filtered = extender.read_filtered(answer_of(outcome), list(by_name))
            except Exception as e:
                self.results.append(ExtenderResult(extender.name, "filter", len(by_name), failed=str(e)))
                if not extender.ignorable:
                    self.error = error(e)
                    break
            else:
                self._take(extender, filtered, by_name)
        return list(by_name)

    def _take(self, extender: Extender, filtered: Filtered, by_name: dict[str, Node]) -> None:
        asked = len(by_name)
        self.refused |= refusals_of(filtered)
        messages = {**filtered.failed, **filtered.unresolvable}
        gone = by_name.keys() - set(filtered.kept)
        self.narrowed = self.narrowed or bool(gone)
        refused = {name: messages.get(name, "") for name in by_name if name in gone}
        for name in gone:
            del by_name[name]
        self.results.append(ExtenderResult(extender.name, "filter", asked, refused=refused))

    # -- prioritize ---------------------------------------------------------------------------------------------------

    def points(self, nodes: Sequence[Node]) -> dict[str, dict[str, int]]:
        """Extender -> node -> what is added to its score."""
        found: dict[str, dict[str, int]] = {}
        wanted = []
        for extender in self._extenders:
            if not extender.prioritizes:
                continue
            outcome = self._answers.get((extender.name, "prioritize"))
            try:
                if outcome is None:
                    question = extender.prioritize_question(self._pod, nodes)
                    wanted.append(Ask(who=extender.name, verb="prioritize", question=question))
                    continue
                scores = extender.read_scores(answer_of(outcome))
                points = {name: score * extender.weight * SCORE_FACTOR for name, score in scores.items()}
            except Exception as e:
                self.results.append(ExtenderResult(extender.name, "prioritize", len(nodes), failed=str(e)))
            else:
                found[extender.name] = points
                self.results.append(ExtenderResult(extender.name, "prioritize", len(nodes), points=points))
        self.wanted = tuple(wanted)
        return found


def refusals_of(filtered: Filtered) -> dict[str, Status]:
    """Node -> reason."""
    refused = {name: unschedulable(why).with_plugin(EXTENDER) for name, why in filtered.failed.items()}
    return refused | {name: unresolvable(why).with_plugin(EXTENDER) for name, why in filtered.unresolvable.items()}


def refuse(
    diagnosis: Diagnosis,
    names: Sequence[str],
    rows: Rows,
    refused: Mapping[str, Status],
    *,
    narrowed: bool,
) -> None:
    """Add the extenders' rejections of rows that had passed all filters to a diagnosis."""
    statuses = {row: refused[names[row]] for row in rows.tolist() if names[row] in refused}
    # Nodes that were omitted without a reason count like nodes that were not examined.
    silent = np.zeros(len(diagnosis.examined), np.bool_)
    silent[[row for row in rows.tolist() if row not in statuses]] = True
    diagnosis.examined = diagnosis.examined & ~silent
    if statuses:
        diagnosis.filtered.append((EXTENDER, from_statuses(statuses, len(diagnosis.examined))))
    if narrowed:
        diagnosis.pre_filter_plugins |= {EXTENDER}
