"""A verdict as text.

The most important part comes first, and every part fits on a screen, whatever the number of nodes. The wide form lists
every node instead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from stowplan.ask.explain.suggestions.explanations import Explanations, VerdictInspection, inspecting
from stowplan.ask.explain.text.overview import placed_state
from stowplan.ask.explain.text.tables import Block, Cell, Grid, Line, Span, not_asked_block
from stowplan.ask.explain.verdicts.advice import Suggestion
from stowplan.ask.explain.verdicts.group_verdict import GroupVerdict
from stowplan.ask.explain.verdicts.verdict import Verdict, refusals
from stowplan.scheduler.engine.decision.extender_cycle import ExtenderResult
from stowplan.scheduler.framework.explanations.formatting import count, listed, sentence
from stowplan.scheduler.framework.explanations.preemption import Eviction, Preemption
from stowplan.scheduler.framework.explanations.remedy import Refusal
from stowplan.scheduler.inspection.queue_state import BEING_BOUND, WAITS_FOR_CLAIM, WAITS_ON_PERMIT
from stowplan.scheduler.inspection.records import ReliefRecord

if TYPE_CHECKING:
    from stowplan.ask.explain.text.reported_status import ReportedStatus
    from stowplan.scheduler.engine.engine import Engine

#: Maximum number of items per part in the short form.
_NODES, _GROUPS, _SUGGESTIONS, _VICTIMS = 5, 12, 6, 8
#: The number of nodes of which is told what their scores rest on.
_RESTS_ON = 3


def explanation(
    engine: Engine,
    verdict: Verdict,
    *,
    wide: bool = False,
    alike: Sequence[str] = (),
    reported: ReportedStatus | None = None,
    on_its_way: str = "",
    group: GroupVerdict | None = None,
    relief: Sequence[ReliefRecord] = (),
    among_others: bool = False,
) -> list[Block]:
    """The page about a pod. `alike` are equal pods; `reported` is the live scheduler's report.

    `on_its_way`: what the pod's binding cycle waits for. `group`: the verdict on its pod group, if it has one that is
    scheduled as a whole. `relief`: changes that were tried with all these pods. `among_others`: the page is one of
    many.
    """
    if verdict.error is not None:
        # There is nothing to inspect, and possibly no profile.
        return _not_judged(verdict, alike, reported, wide=wide)
    # Must precede the inspection: advice removes a placed pod from its node itself.
    _ = verdict.advice
    with inspecting(engine, verdict) as at:
        page = _Page(at, wide, alike, reported, on_its_way, group, relief, among_others=among_others)
        return page.blocks()


def _not_judged(verdict: Verdict, alike: Sequence[str], reported: ReportedStatus | None, *, wide: bool) -> list[Block]:
    assert verdict.error is not None
    who, why = _who(verdict, alike), verdict.error.message
    if verdict.without_profile:
        state = "are pending" if alike else verdict.present_state
        known = reported is not None and reported.known is not None
        whose = "only its own scheduler can judge it" if known else "not scheduled here"
        blocks: list[Block] = [Line((*who, (f" {state}: {whose}", "pending"))), Line(why, 2)]
    else:
        blocks = [Line((*who, (" cannot be judged", "bad"))), Line((("error: ", "bad"), (why, "")), 2)]
    if reported is not None:
        blocks += [*reported.blocks(verdict, wide=wide), *reported.known_blocks(wide=wide)]
    blocks += _extenders(verdict)
    if any(word.failed for word in verdict.extenders):
        blocks.append(Line((("`stowplan explain --no-extenders` judges the pod without them", "dim"),), 2))
    return blocks


def _who(verdict: Verdict, alike: Sequence[str]) -> list[Span]:
    who: list[Span] = [(verdict.key, "name")]
    if alike:
        who.append((f" and {len(alike):,} more like it ({listed(list(alike), 2)})", ""))
    return who


def _extenders(verdict: Verdict) -> list[Block]:
    words = verdict.extenders
    if not words:
        return []
    lines = [Line(((word.extender, ""), (f": {_said_by(word)}", "dim")), 2) for word in words]
    return [Line(), Line((("Extenders", "head"),)), *lines]


class _Page:
    def __init__(
        self,
        at: VerdictInspection,
        wide: bool,
        alike: Sequence[str],
        reported: ReportedStatus | None,
        on_its_way: str,
        group: GroupVerdict | None,
        relief: Sequence[ReliefRecord],
        *,
        among_others: bool,
    ) -> None:
        self._at = at
        self._verdict = at.verdict
        self._wide = wide
        self._alike = alike
        self._reported = reported
        self._group = group
        self._relief = relief
        self._among_others = among_others
        #: The pod's current or future node.
        self._current_node = at.verdict.current_node
        if reported is not None and not self._current_node:
            on_its_way, self._current_node = reported.on_its_way
        if alike and on_its_way.startswith((WAITS_ON_PERMIT, WAITS_FOR_CLAIM)):
            # Each for a claim of its own, but for the same node: otherwise plugins could tell them apart.
            several = on_its_way.replace(WAITS_FOR_CLAIM, f"{WAITS_FOR_CLAIM}s such as", 1)
            on_its_way = several.replace("waits", "wait", 1)
        self._has_its_node = f"is {on_its_way}" if on_its_way == BEING_BOUND else on_its_way or self._is_there()
        self._explanations = Explanations(at)

    def blocks(self) -> list[Block]:
        verdict = self._verdict
        blocks: list[Block] = [self._headline()]
        if verdict.gated is not None:
            who = f" ({verdict.gated.plugin})"
            blocks.append(Line(((verdict.gated.message, ""), (who, "dim")), 2))
        elif verdict.node_name:
            blocks += [*self._choice(), *_extenders(verdict), *not_asked_block(self._verdict.not_asked)]
        else:
            blocks.append(Line(verdict.full_message, 2))
        blocks += self._nominated()
        blocks += (Line(fact, 2) for fact in self._explanations.facts())
        blocks += self._help()
        blocks += self._said()
        if not verdict.node_name:
            blocks += self._preemption()
            blocks += _extenders(verdict)
            blocks += not_asked_block(self._verdict.not_asked)
        return [*blocks, *self._refused(), *self._known()]

    def _nominated(self) -> list[Block]:
        nominated = self._verdict.pod.pod.status.nominated_node_name
        # The node of a pod that waits on Permit is in its status, too.
        if not nominated or nominated in (self._verdict.node_name, self._current_node):
            return []
        known = nominated in self._at.names
        what = "preemption makes room for it there" if known else "that node is gone"
        return [Line((("nominated to ", ""), (nominated, "best"), (f": {what}", "")), 2)]

    def _said(self) -> list[Block]:
        if self._reported is None:
            return []
        return self._reported.blocks(
            self._verdict,
            wide=self._wide,
            among_others=self._among_others,
            waits_for_group=self._waits_for_group,
        )

    @property
    def _waits_for_group(self) -> bool:
        return self._group is not None and self._group.best is not None and not self._group.fits

    def _known(self) -> list[Block]:
        if self._reported is None:
            return []
        return self._reported.known_blocks(wide=self._wide, among_others=self._among_others)

    def _is_there(self) -> str:
        plural = bool(self._alike)
        match placed_state(self._verdict.pod, self._current_node):
            case "deleting":
                return "are being deleted on" if plural else "is being deleted on"
            case "starting":
                return "are bound to" if plural else "is bound to"
        return "run on" if plural else "runs on"

    # -- headline -----------------------------------------------------------------------------------------------------

    def _headline(self) -> Line:
        verdict = self._verdict
        who = _who(verdict, self._alike)
        plural = bool(self._alike)
        if verdict.gated is not None:
            return Line((*who, (" are gated" if plural else " is gated", "pending"), (": nothing is tried yet", "")))
        total = verdict.diagnosis.nodes if verdict.diagnosis is not None else len(verdict.names)
        priority = f" (priority {verdict.pod.priority:,})" if verdict.pod.priority else ""
        if not verdict.node_name:
            state = self._without_node(plural)
            return Line(
                (*who, *state, (f": none of {count(total, 'node')} takes {'one' if plural else 'it'}{priority}", ""))
            )
        taking = f": {int(verdict.feasible.sum()):,} of {count(total, 'node')} would take it{priority}"
        return Line((*who, *self._going(), (taking, "")))

    def _without_node(self, plural: bool) -> list[Span]:
        if self._current_node:
            state = f" {self._has_its_node} {self._current_node}"
            return [(state, ""), (" and could not be placed again", "pending")]
        return [(" are pending" if plural else " is pending", "pending")]

    def _going(self) -> list[Span]:
        chosen, current = self._verdict.node_name, self._current_node
        if not current and self._group is not None and self._waits_for_group:
            waits = "wait for their" if self._alike else "waits for its"
            each = "each would" if self._alike else "it would"
            return [
                (f" {waits} pod group {self._group.group}", "pending"),
                (f", which does not fit; alone {each} go to ", ""),
                (chosen, "best"),
            ]
        if not current:
            return [(" would each go to " if self._alike else " goes to ", ""), (chosen, "best")]
        if current == chosen:
            return [(f" {self._has_its_node} ", ""), (chosen, "best"), (" and would go there again", "")]
        return [(f" {self._has_its_node} {current}; placed again it would go to ", ""), (chosen, "best")]

    # -- placement -----------------------------------------------------------------------------------------------------

    def _choice(self) -> list[Block]:
        ranked = self._verdict.ranked()
        # A nominated node comes first, whatever its score.
        ranked.sort(key=lambda row: self._verdict.names[row] != self._verdict.node_name)
        decided = self._decided(ranked)
        return [Line(decided, 2), Line(), *self._scores(ranked)]

    def _decided(self, ranked: Sequence[int]) -> Cell:
        verdict = self._verdict
        chosen = verdict.names[ranked[0]]
        if len(ranked) == 1:
            return f"{chosen} is the only node that takes it, so scores do not matter"
        if verdict.nominated:
            return f"{chosen} is taken because the pod is nominated to it, so scores do not matter"
        best = int(verdict.totals[ranked[0]])
        tied = [row for row in ranked if int(verdict.totals[row]) == best]
        if len(tied) > 1:
            names = listed([verdict.names[row] for row in tied])
            return f"{names} tie at {best:,} points: kube-scheduler takes one of them at random, the first is shown"
        second = ranked[1]
        parts = [(name, int(of[ranked[0]] - of[second])) for name, of in verdict.scores.items()]
        parts = sorted((part for part in parts if part[1]), key=lambda part: (-part[1], part[0]))
        by = best - int(verdict.totals[second])
        why = ", ".join(f"{name} {points:+,}" for name, points in parts)
        return f"{chosen} wins by {count(by, 'point')} over {verdict.names[second]}: {why}"

    def _scores(self, ranked: Sequence[int]) -> list[Block]:
        """The best nodes, with each plugin's score times its weight."""
        verdict = self._verdict
        shown = ranked if self._wide else ranked[:_NODES]
        all_rows = np.array(ranked, np.intp)
        plugins = [name for name, of in verdict.scores.items() if of[all_rows].any()]
        header = ["node", "score", *(self._column_title(name) for name in plugins)]
        rows: list[list[Cell]] = []
        for row in shown:
            style = "best" if row == ranked[0] else ""
            points = [f"{int(verdict.scores[name][row]):,}" for name in plugins]
            rows.append([((verdict.names[row], style),), ((f"{int(verdict.totals[row]):,}", style),), *points])
        grid = Grid(rows, header, frozenset(range(1, len(header))))
        rests_on = self._rests_on(shown if self._wide else shown[:_RESTS_ON])
        left = ranked[len(shown) :]
        if not left:
            return [grid, *rests_on]
        low, high = int(verdict.totals[left[-1]]), int(verdict.totals[left[0]])
        between = f"{low:,}" if low == high else f"{low:,} to {high:,}"
        more = Line(((f"… and {count(len(left), 'node')} more with {between} points", "dim"),), 2)
        return [grid, more, *rests_on]

    def _rests_on(self, rows: Sequence[int]) -> list[Block]:
        """What plugins tell of their scores of these nodes."""
        told: dict[str, list[str]] = {}
        for row in rows:
            for plugin, text in self._explanations.of_scores(row).items():
                told.setdefault(plugin, []).append(f"{self._verdict.names[row]} {text}")
        return [Line(((f"{plugin}: {'; '.join(texts)}", "dim"),), 2) for plugin, texts in told.items()]

    def _column_title(self, plugin: str) -> str:
        known = self._at.framework.plugins.get(plugin)
        # Extenders have scores, too.
        return plugin if self._wide or known is None else known.short_name or plugin

    # -- rejected nodes ------------------------------------------------------------------------------------------------

    def _refused(self) -> list[Block]:
        diagnosis = self._verdict.diagnosis
        groups = refusals(diagnosis) if diagnosis is not None else []
        if not groups:
            return []
        return [Line(), Line((("Refused", "head"),)), *(self._each(groups) if self._wide else self._grouped(groups))]

    def _grouped(self, groups: Sequence[Refusal]) -> list[Block]:
        rows: list[list[Cell]] = []
        for group in groups[:_GROUPS]:
            detail = self._explanations.of_group(group)
            few = len(group.rows) <= 3
            names = listed(self._at.named(group.rows)) if few else _sample(self._at, group)
            # The detail of a single node that lacks something contains its name.
            named = len(group.rows) == 1 and detail.startswith(f"{names} lacks ")
            which = detail if named else sentence((names, detail))
            number = count(len(group.rows), "node")
            rows.append(
                [number, ((group.plugin, "bad"),), self._explanations.reason_text(group), ((f"({which})", "dim"),)]
            )
        grid = Grid(rows, right=frozenset((0,)))
        rest = groups[_GROUPS:]
        if not rest:
            return [grid]
        nodes = count(sum(len(group.rows) for group in rest), "node")
        text = f"… and {count(len(rest), 'more reason')} that refuse {nodes}; -o wide lists every node"
        return [grid, Line(((text, "dim"),), 2)]

    def _each(self, groups: Sequence[Refusal]) -> list[Block]:
        ordered = sorted(
            ((row, group) for group in groups for row in group.rows.tolist()),
            key=lambda found: self._at.names[found[0]],
        )
        rows: list[list[Cell]] = []
        for row, group in ordered:
            detail = ((self._explanations.of_node(group, row), "dim"),)
            rows.append([self._at.names[row], ((group.plugin, "bad"),), group.text, group.code.name, detail])
        return [Grid(rows, ("node", "plugin", "reason", "code", "detail"))]

    # -- suggestions ---------------------------------------------------------------------------------------------------

    def _help(self) -> list[Block]:
        advice = self._verdict.advice
        if advice is None or not (advice.suggestions or advice.obstacles or self._relief):
            return []
        blocks: list[Block] = [Line(), Line((("What would help", "head"),))]
        blocks += (Line((("! ", "bad"), (obstacle, "")), 2, marked=True) for obstacle in advice.obstacles)
        found = self._advised(advice.suggestions)
        shown = found if self._wide else found[:_SUGGESTIONS]
        blocks += (Line(((f"{i}. ", "dim"), *spans), 2, marked=True) for i, spans in enumerate(shown, start=1))
        left = len(found) - len(shown)
        if left:
            blocks.append(Line(((f"… and {count(left, 'more suggestion')} (-o wide)", "dim"),), 2))
        return blocks

    def _advised(self, suggestions: Sequence[Suggestion]) -> list[tuple[Span, ...]]:
        """What was tried with all equal pods; for a single pod, more nodes come before what it would have to give up.

        What helps one of several pods may not help the next one.
        """
        if self._alike and self._relief:
            return [_placing(one, len(self._alike) + 1) for one in self._relief]
        more_nodes = [_placing(one, 1) for one in self._relief if one.changes[0]["kind"] == "addNodes"]
        keep, give_up = (
            [_advised(suggestion) for suggestion in suggestions if suggestion.gives_up is gives_up]
            for gives_up in (False, True)
        )
        return [*keep, *more_nodes, *give_up]

    # -- preemption ----------------------------------------------------------------------------------------------------

    def _preemption(self) -> list[Block]:
        outcome = self._verdict.preemption
        if outcome is None:
            return []
        head = Line((("Preemption", "head"), (f" ({outcome.plugin})", "dim")))
        if outcome.ineligible_reason:
            return [Line(), head, Line(outcome.ineligible_reason, 2)]
        if outcome.error and outcome.selected is None:
            return [Line(), head, Line(f"failed: {outcome.error}", 2)]
        if outcome.selected is None:
            return [Line(), head, Line(f"would not help: {outcome.unhelpful}", 2)]
        return [Line(), head, *self._victims(outcome, outcome.selected)]

    # -- plugins not called --------------------------------------------------------------------------------------------

    def _victims(self, outcome: Preemption, selected: Eviction) -> list[Block]:
        victims = selected.victims
        if not victims:
            return [
                Line((("would be nominated to ", ""), (selected.node_name, "best"), (", no pod is evicted", "")), 2)
            ]
        what = f"would evict {count(len(victims), 'pod')} from "
        budgets = "no disruption budget is violated"
        if selected.pdb_violations:
            budgets = f"{count(selected.pdb_violations, 'eviction')} against a disruption budget"
        others = len(outcome.candidates) - 1
        choice = f"; {count(others, 'other node')} would do as well, at a higher price" if others else ""
        if len(outcome.best) > 1:
            equal = [name for name in outcome.best if name != selected.node_name]
            choice = f"; {count(others, 'other node')} would do as well, {listed(equal)} at the same price"
        style = "bad" if selected.pdb_violations else ""
        blocks: list[Block] = [
            Line(((what, ""), (selected.node_name, "best"), (": ", ""), (budgets, style), (choice, "dim")), 2)
        ]
        shown = victims if self._wide else victims[:_VICTIMS]
        blocks.append(Grid([[victim.key, f"priority {victim.priority:,}"] for victim in shown], indent=4))
        if len(victims) > len(shown):
            blocks.append(Line(((f"… and {count(len(victims) - len(shown), 'more pod')}", "dim"),), 4))
        return blocks


def _placing(relief: ReliefRecord, pods: int) -> tuple[Span, ...]:
    gain = f"places {relief.pods:,} of {pods:,} pods" if pods > 1 else "places it"
    spans: list[Span] = [(f"{relief.text}: ", ""), (gain, "good" if relief.pods == pods else "pending")]
    return (*spans, (f" — {relief.note}", "dim")) if relief.note else tuple(spans)


def _advised(suggestion: Suggestion) -> tuple[Span, ...]:
    deed, _, gain = suggestion.text.partition(" to gain ")
    spans: list[Span] = [(deed, "")]
    if gain:
        spans += [(" to gain ", ""), (gain, "good")]
    return (*spans, (f" — {suggestion.note}", "dim")) if suggestion.note else tuple(spans)


def _said_by(word: ExtenderResult) -> str:
    """An extender's answer, in one line."""
    if word.failed:
        return f"{word.verb} failed: {word.failed}"
    if word.verb == "prioritize":
        best = max(word.points, key=lambda name: word.points[name], default="")
        return f"most points for {best} ({word.points[best]:+,})" if best else "no points for any node"
    if not word.refused:
        return f"leaves all of {count(word.asked, 'node')}"
    reasons = Counter(why or "no reason given" for why in word.refused.values())
    shown = [f"{number} {why}" for why, number in reasons.most_common(_GROUPS)]
    return f"refuses {len(word.refused):,} of {count(word.asked, 'node')}: {', '.join(shown)}"


def _sample(at: VerdictInspection, group: Refusal) -> str:
    return f"{at.names[int(group.rows[0])]} … and {len(group.rows) - 1:,} more"
