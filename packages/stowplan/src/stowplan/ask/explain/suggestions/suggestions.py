"""Suggestions for an unschedulable pod: the smallest changes, each verified by a trial.

Plugins return what each rejected node would need to become feasible (`framework/explanations/remedy.py`). Nodes that
need changes for one plugin only come first; if none of those works, nodes that need changes for two, and so on. A
candidate is applied to a copy of the pod (or to the cluster, and undone) and all nodes are judged again: its gain is
the number of nodes that are then feasible. Changes that a combination does not need are dropped.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice, product
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from stowplan.ask.explain.suggestions.explanations import Explanations, VerdictInspection, guarded, inspecting
from stowplan.ask.explain.verdicts.advice import Advice, Suggestion
from stowplan.ask.explain.verdicts.verdict import Verdict, for_nominated
from stowplan.kube.api.types import Node, Pod
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.arrays import Mask, Rows
from stowplan.scheduler.framework.explanations.formatting import count, sentence
from stowplan.scheduler.framework.explanations.remedy import HOPELESS, Change, Dial, Remedy, Step, Way, classes, split

#: Maximum number of changes that are tried for one pod.
TRIES = 400


@dataclass
class Trials:
    """Evaluates changes, and counts the trials, whose number is limited."""

    inspection: VerdictInspection
    limit: int = TRIES
    #: The rows to gain; None: any.
    only: Mask | None = None
    tries: int = field(default=0, init=False)

    @property
    def exhausted(self) -> bool:
        return self.tries >= self.limit

    def changed(self, changes: Sequence[Change]) -> Pod:
        pod = self.inspection.pod.pod
        for change in changes:
            pod = pod if change.on_pod is None else change.on_pod(pod)
        return pod

    def _changed_nodes(self, changes: Sequence[Change]) -> list[Node]:
        found: dict[str, Node] = {}
        table = self.inspection.table
        for change in changes:
            for name in change.nodes:
                node = found.get(name) or table.nodes[table.row_of[name]]
                if node is not None and change.on_node is not None:
                    found[name] = change.on_node(node)
        return list(found.values())

    def feasible(self, changes: Sequence[Change]) -> Rows:
        """Rows that are feasible after the changes."""
        self.tries += 1
        cluster = self.inspection.cluster
        with cluster.transaction():
            for node in self._changed_nodes(changes):
                cluster.add_node(node)
            for uid in dict.fromkeys(info.uid for change in changes for info in change.leaving):
                cluster.remove_pod(uid)
            for obj in (obj for change in changes for obj in change.objects):
                cluster.put_object(obj)
            feasible = self.inspection.question.feasible(cluster.pod_info(self.changed(changes)))
            return np.flatnonzero(feasible if self.only is None else feasible & self.only)


def obstacles(at: VerdictInspection, explanations: Explanations, *, solved: bool) -> list[str]:
    """`solved`: some change helps, so that the reasons of all nodes need not be listed."""
    found = [*explanations.obstacles(), *_whole_pod(at), *_nominated(at)]
    preempts = at.verdict.preemption is not None and at.verdict.preemption.selected is not None
    if not solved and not found and not preempts:
        found += _everywhere(at)
    return list(dict.fromkeys(found))


def _whole_pod(at: VerdictInspection) -> Iterator[str]:
    """Plugins that rejected the pod before Filter."""
    absent = at.diagnosis.absent if at.diagnosis is not None else None
    if absent is not None and absent.plugin and absent.shown_reasons:
        yield f"{absent.plugin} refuses the pod on every node: {absent.message}"


def _nominated(at: VerdictInspection) -> Iterator[str]:
    nominated = for_nominated(at.diagnosis) if at.diagnosis is not None else []
    if nominated:
        nodes = count(len(nominated), "node")
        yield f"{nodes} would do, but room there is kept for nominated pods of equal or higher priority"


def _everywhere(at: VerdictInspection) -> Iterator[str]:
    counts = sorted(((int(mask.sum()), name) for name, mask in at.masks.items()), key=lambda item: (-item[0], item[1]))
    nodes = int(at.valid.sum())
    if counts:
        listed = ", ".join(f"{name} refuses {number:,}" for number, name in counts)
        yield f"no small change gains a node: of {count(nodes, 'node')}, {listed}"


if TYPE_CHECKING:
    from stowplan.scheduler.engine.engine import Engine


#: Kinds of nodes examined per number of plugins, and ways tried per kind.
_MAX_KINDS, _MAX_WAYS = 40, 12
#: Recursion depth for rejections caused by a change, and the number of kinds of nodes for which that is done.
_DEPTH, _MAX_DEEPENED = 2, 3
#: Maximum number of node names in data.
_NAMED = 20


def suggest(engine: Engine, verdict: Verdict, tries: int = TRIES) -> Advice:
    """Advice for an unschedulable pod; empty for other pods, and after an error. `tries`: maximum number of trials."""
    if verdict.error is not None or verdict.node_name:
        return Advice()
    with inspecting(engine, verdict) as at:
        if verdict.gated is not None:
            return _ungated(engine, at)
        explanations = Explanations(at)
        found = _Search(at, explanations, tries=tries).run()
        return Advice(tuple(found), tuple(obstacles(at, explanations, solved=bool(found))))


def suggest_on(engine: Engine, verdict: Verdict, row: int, tries: int = TRIES) -> tuple[Suggestion, ...]:
    """Changes that make a specific node feasible, regardless of other nodes; the smallest first."""
    if verdict.error is not None or verdict.gated is not None or verdict.feasible[row]:
        return ()
    with inspecting(engine, verdict) as at:
        only = np.zeros(len(at.valid), np.bool_)
        only[row] = True
        return tuple(_Search(at, Explanations(at), only=only, tries=tries).run())


def advise(engine: Engine, verdict: Verdict, tries: int = TRIES) -> Verdict:
    """Let the verdict compute advice on demand."""
    verdict.adviser = partial(suggest, engine, tries=tries)
    return verdict


def _ungated(engine: Engine, at: VerdictInspection) -> Advice:
    """For a pod gated by PreEnqueue: how to ungate it, and the nodes that are then feasible."""
    assert at.verdict.gated is not None
    plugin, trials = at.verdict.gated.plugin, Trials(at)
    ways = Explanations(at).ways_for_pod(plugin)[:_MAX_WAYS]
    found = [guarded(plugin, partial(_lifted, engine, at, trials, way), None) for way in ways]
    return Advice(tuple(suggestion for suggestion in found if suggestion is not None))


def _lifted(engine: Engine, at: VerdictInspection, trials: Trials, way: Way) -> Suggestion:
    changes = _at_most(way)
    changed = at.cluster.pod_info(trials.changed(changes))
    still = at.question.gated(changed)
    if still is not None:
        return _suggestion(at, changes, np.zeros(0, np.intp), still.message)
    found = _suggestion(at, changes, trials.feasible(changes))
    if found.gain:
        return found
    with engine.asking(changed) as question:
        plans = [result.plan for _, result in question.judgement().post_filter if result.plan is not None]
    return replace(found, preempts_on=plans[-1].node_name) if plans else found


def _at_most(way: Sequence[Step]) -> list[Change]:
    """With every dial at its highest degree."""
    return [step.at(step.high) if isinstance(step, Dial) else step for step in way]


def _suggestion(at: VerdictInspection, found: Sequence[Change], rows: Rows, note: str = "") -> Suggestion:
    names = at.named(rows)
    gained = set(names)
    # In a combination, a change may gain other nodes than the one that it was made for.
    notes = [note, *(change.note for change in found if change.about in gained)]
    return Suggestion(tuple(found), len(rows), tuple(names[:_NAMED]), sentence(notes))


class _Need(PlainStruct):
    """Nodes that need the same classes of changes."""

    rows: Rows
    #: Plugin -> class of its remedy.
    kinds: list[tuple[str, int]]


@dataclass
class _Search:
    at: VerdictInspection
    explanations: Explanations
    depth: int = 0
    #: The rows to gain; None: any.
    only: Mask | None = None
    tries: int = TRIES
    trials: Trials = field(init=False)
    _remedies: dict[str, Remedy] = field(init=False)

    def __post_init__(self) -> None:
        self.trials = Trials(self.at, limit=self.tries, only=self.only)
        self._remedies = self.explanations.remedies()

    def run(self) -> list[Suggestion]:
        if self.at.diagnosis is None:
            return []
        if not self._remedies:
            return self._for_whole_pod()
        found: dict[str, Suggestion] = {}
        needs = self._needs()
        for size in sorted({len(need.kinds) for need in needs}):
            of_size = [need for need in needs if len(need.kinds) == size]
            for need in of_size[:_MAX_KINDS]:
                for suggestion in self._guarded(self._tried, need):
                    found.setdefault(_key(suggestion.changes), suggestion)
            if found or self.trials.exhausted:
                break
        for need in needs[:_MAX_DEEPENED] if not found and self.depth < _DEPTH else ():
            found |= {_key(suggestion.changes): suggestion for suggestion in self._guarded(self._deepened, need)}
        return sorted(found.values(), key=lambda s: (s.gives_up, len(s.changes), s.cost, -s.gain, s.text))

    def _for_whole_pod(self) -> list[Suggestion]:
        """PreFilter rejected the pod as a whole."""
        diagnosis = self.at.diagnosis
        assert diagnosis is not None
        plugin = diagnosis.absent.plugin
        ways = self.explanations.ways_for_pod(plugin)[:_MAX_WAYS]
        found = [guarded(plugin, partial(self._try, way), None) for way in ways]
        return [suggestion for suggestion in found if suggestion is not None]

    def _needs(self) -> list[_Need]:
        """The needs of groups of nodes, ordered by the number of plugins that require changes."""
        diagnosis = self.at.diagnosis
        assert diagnosis is not None
        names = list(self._remedies)
        columns = [self._remedies[name].classes for name in names]
        open_ = self.at.valid.copy() if self.only is None else self.at.valid & self.only
        open_[list(diagnosis.nominated)] = False
        for column in columns:
            open_ &= column != HOPELESS
        if not self.explanations.remedies_cover(diagnosis.pre_filter_plugins):
            # PreFilter excluded nodes for which no Filter was called.
            open_ &= diagnosis.examined
        rows = np.flatnonzero(open_)
        needs = []
        for part in split(rows, classes([column[rows] for column in columns], len(rows))):
            kinds = [(name, int(col[part[0]])) for name, col in zip(names, columns, strict=True) if col[part[0]]]
            if kinds:
                needs.append(_Need(part, kinds))
        return sorted(needs, key=lambda need: (len(need.kinds), -len(need.rows)))

    def _guarded(self, search: Callable[[_Need], list[Suggestion]], need: _Need) -> list[Suggestion]:
        """No suggestion if a plugin's remedy proposes a change that cannot be applied."""
        return guarded(", ".join(name for name, _ in need.kinds), lambda: search(need), [])

    def _ways(self, name: str, kind: int, need: _Need) -> list[Way]:
        return self.explanations.ways(name, self._remedies[name], kind, need.rows)

    def _tried(self, need: _Need) -> list[Suggestion]:
        ways = [self._ways(name, kind, need) for name, kind in need.kinds]
        found = []
        for combined in islice(product(*ways), _MAX_WAYS):
            if self.trials.exhausted:
                break
            suggestion = self._try([step for way in combined for step in way])
            if suggestion is not None:
                found.append(suggestion)
        return found

    def _deepened(self, need: _Need) -> list[Suggestion]:
        """A change can cause a new rejection (other nodes now count for a spread constraint): judge the changed pod."""
        steps = [step for name, kind in need.kinds for way in self._ways(name, kind, need)[:1] for step in way]
        tried = _at_most(steps)
        if not tried or any(change.on_pod is None for change in tried):
            return []
        changed = self.at.of(self.at.cluster.pod_info(self.trials.changed(tried)))
        further = _Search(changed, Explanations(changed), self.depth + 1, self.only).run()
        found = (self._try([*steps, *suggestion.changes]) for suggestion in further[:_MAX_DEEPENED])
        return [suggestion for suggestion in found if suggestion is not None]

    def _try(self, steps: Sequence[Step]) -> Suggestion | None:
        tried = _at_most(steps)
        if not len(self.trials.feasible(tried)):
            return None
        for i, step in enumerate(steps):
            if isinstance(step, Dial):
                self._turn_back(tried, i, step)
        kept = self._needed(tried)
        return _suggestion(self.at, kept, self.trials.feasible(kept))

    def _turn_back(self, tried: list[Change], i: int, dial: Dial) -> None:
        """The lowest degree at which some node is still feasible."""
        low, high = dial.low, dial.high
        while low < high:
            middle = (low + high) // 2
            helps = len(self.trials.feasible([*tried[:i], dial.at(middle), *tried[i + 1 :]]))
            low, high = (low, middle) if helps else (middle + 1, high)
        tried[i] = dial.at(high)

    def _needed(self, tried: Sequence[Change]) -> list[Change]:
        """Drop changes that the others do not need."""
        kept = list(tried)
        for change in tried:
            rest = [other for other in kept if other is not change]
            if rest and len(self.trials.feasible(rest)):
                kept = rest
        return kept


def _key(changes: Sequence[Change]) -> str:
    return json.dumps(sorted((change.kind, json.dumps(change.data, sort_keys=True)) for change in changes))
