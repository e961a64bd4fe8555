"""A group verdict as text."""

from __future__ import annotations

from collections.abc import Sequence

from stowplan.ask.explain.text.tables import Block, Cell, Grid, Line, Span, not_asked_block
from stowplan.ask.explain.verdicts.group_verdict import GroupVerdict
from stowplan.ask.explain.verdicts.verdict import nodes_of_placed, refusals_of, victims_of
from stowplan.scheduler.engine.groups.group_questions import DomainJudgement
from stowplan.scheduler.framework.explanations.formatting import count, joined, listed
from stowplan.scheduler.inspection.records import ReliefRecord

#: Maximum number of items per part in the short form.
_NODES, _DOMAINS, _REASONS, _RELIEF, _VICTIMS = 8, 10, 6, 5, 8


def group_page(verdict: GroupVerdict, relief: Sequence[ReliefRecord] = (), *, wide: bool = False) -> list[Block]:
    """The page about a group. `relief`: verified changes that let the group fit."""
    return _GroupPage(verdict, relief, wide).blocks()


class _GroupPage:
    def __init__(self, verdict: GroupVerdict, relief: Sequence[ReliefRecord], wide: bool) -> None:
        self._verdict = verdict
        self._relief = relief
        self._wide = wide

    def blocks(self) -> list[Block]:
        verdict, best = self._verdict, self._verdict.best
        blocks: list[Block] = [self._headline(), Line(((self._kind(), "dim"),), 2)]
        if best is None:
            return [*blocks, Line((("error: ", "bad"), (verdict.status.message, "")), 2)]
        blocks += self._held_back()
        if not verdict.fits:
            blocks.append(Line(f"its condition: {verdict.status.message or 'True'}", 2))
        blocks += self._reported()
        if not best.works:
            blocks += self._lacking(best)
        if self._relief:
            blocks += [Line(), Line((("What would help", "head"),)), *self._help()]
        blocks += self._together(best)
        blocks += self._victims(best)
        if len(verdict.domains) > 1:
            blocks += [Line(), Line((("Domains", "head"), (f" ({verdict.topology_key})", "dim"))), *self._domains()]
        return [*blocks, *not_asked_block(verdict.not_asked)]

    # -- headline -----------------------------------------------------------------------------------------------------

    def _headline(self) -> Line:
        verdict, best = self._verdict, self._verdict.best
        who: list[Span] = [("pod group ", ""), (verdict.group, "name")]
        if best is None:
            return Line((*who, (" cannot be judged", "bad")))
        state: Span = (" does not fit", "bad")
        if verdict.gated and not verdict.left_out:
            state = (" is held back", "pending")
        elif best.works:
            state = (" would fit after preemption", "pending") if best.waiting else (" fits", "good")
        where: list[Span] = [(" in ", ""), (best.name, "best")] if best.name else []
        fit: Span = (f": {len(best.placed):,} of {count(len(verdict.pods), 'pod')} fit together", "")
        more = "" if best.works else f", {verdict.needed(best)}"
        return Line((*who, state, fit, *where, (more, "")) if not best.works else (*who, state, *where, fit))

    def _kind(self) -> str:
        verdict = self._verdict
        if verdict.pod_group is None:
            return "there is no PodGroup object of that name"
        parts = ["a basic group" if verdict.min_count is None else f"a gang of at least {verdict.min_count:,}"]
        if verdict.topology_key:
            parts.append(f"all on nodes with the same {verdict.topology_key}")
        if verdict.staying:
            parts.append(f"{count(len(verdict.staying), 'pod')} on nodes already")
        if verdict.judged_as_pending:
            parts.append("all pods have nodes; judged as if they were placed now")
        return "; ".join(parts)

    def _held_back(self) -> list[Block]:
        by_message: dict[str, list[str]] = {}
        for key, status in self._verdict.gated.items():
            by_message.setdefault(status.message, []).append(key)
        return [
            Line(((f"held back: {listed(keys)}", "pending"), (f": {message}", "")), 2)
            for message, keys in by_message.items()
        ]

    def _reported(self) -> list[Block]:
        condition = self._verdict.record().condition
        if condition is None:
            return []
        said = f"{condition.status}, {condition.reason}"
        message = f": {condition.message}" if condition.message else ""
        return [Line(((f"in the cluster: {said}{message}", "dim"), (f" (since {condition.since})", "dim")), 2)]

    # -- parts --------------------------------------------------------------------------------------------------------

    def _lacking(self, best: DomainJudgement) -> list[Block]:
        verdict = self._verdict
        where = f" in {best.name}" if best.name else ""
        blocks: list[Block] = []
        resources = verdict.lacking_resources(best)
        if resources:
            asked = joined([f"{amount} {resource}" for resource, amount in resources.items()])
            blocks.append(Line(f"{count(verdict.lacking(best), 'pod')}, requesting {asked} in all", 2))
        refusals = refusals_of(best)
        shown = refusals if self._wide else refusals[:_REASONS]
        rows: list[list[Cell]] = [[count(one.pods, "pod"), ((listed(one.names), "dim"),), one.reason] for one in shown]
        if rows:
            blocks.append(Grid(rows, right=frozenset((0,))))
        if not blocks:
            # Pods that do not exist yet, or are held back, lack nothing on the nodes.
            return []
        return [
            Line(),
            Line(((f"What is lacking{where}", "head"),)),
            *blocks,
            *_more(len(refusals) - len(shown), "reason"),
        ]

    def _help(self) -> list[Block]:
        shown = self._relief if self._wide else self._relief[:_RELIEF]
        blocks: list[Block] = []
        for number, one in enumerate(shown, start=1):
            note = ((f" — {one.note}", "dim"),) if one.note else ()
            text = ((f"{number}. ", "dim"), (f"{one.text}: ", ""), (f"places {count(one.pods, 'pod')}", "good"), *note)
            blocks.append(Line(text, 2, marked=True))
        return [*blocks, *_more(len(self._relief) - len(shown), "change")]

    def _together(self, best: DomainJudgement) -> list[Block]:
        found = nodes_of_placed(best)
        if not found:
            return []
        shown = list(found.items())[: None if self._wide else _NODES]
        rows: list[list[Cell]] = [
            [((node, "best"),), count(len(keys), "pod"), listed(keys, len(keys) if self._wide else 3)]
            for node, keys in shown
        ]
        head = "Where they go" if best.works else "Who fits together"
        blocks: list[Block] = [Line(), Line(((head, "head"),)), Grid(rows, right=frozenset((1,)))]
        return [*blocks, *_more(len(found) - len(shown), "node")]

    def _victims(self, best: DomainJudgement) -> list[Block]:
        victims = victims_of(best)
        if not victims:
            return []
        shown = listed(victims, len(victims) if self._wide else _VICTIMS)
        head = Line((("Preemption", "head"),))
        return [Line(), head, Line(f"would evict {count(len(victims), 'pod')}: {shown}", 2)]

    def _domains(self) -> list[Block]:
        ranked = self._verdict.ranked
        shown = ranked if self._wide else ranked[:_DOMAINS]
        rows: list[list[Cell]] = [self._domain_row(one) for one in shown]
        header = ("DOMAIN", "NODES", "FIT", "LACKING", "WHY NOT")
        grid = Grid(rows, header, frozenset((1, 2, 3)))
        return [grid, *_more(len(ranked) - len(shown), "domain")]

    def _domain_row(self, domain: DomainJudgement) -> list[Cell]:
        style = "best" if domain.chosen else "good" if domain.works else ""
        why = ""
        if domain.works:
            why = "taken" if domain.chosen else "would do, has fewer points"
        elif refusals := refusals_of(domain):
            why = refusals[0].reason
        lacking = self._verdict.lacking(domain)
        numbers = (f"{len(domain.nodes):,}", f"{len(domain.placed):,}", f"{lacking:,}")
        return [((domain.name, style),), *numbers, why]


def _more(left: int, what: str) -> list[Block]:
    return [Line(((f"… and {count(left, f'more {what}')} (-o wide)", "dim"),), 2)] if left > 0 else []
