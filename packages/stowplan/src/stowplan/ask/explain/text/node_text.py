"""A node's view as text."""

from __future__ import annotations

from collections.abc import Sequence

from stowplan.ask.explain.node_view import MAX_HELPED, Answer, NodeView, Use
from stowplan.ask.explain.text.tables import Block, Cell, Grid, Line, Span
from stowplan.ask.explain.verdicts.advice import Suggestion
from stowplan.scheduler.framework.explanations.formatting import amount, count, sentence, taint_text

#: Maximum number of items per part in the short form.
_PODS, _KINDS, _HELPED = 8, 12, 6
_BAR = 10


def node_page(view: NodeView, *, wide: bool = False) -> list[Block]:
    return _Page(view, wide).blocks()


class _Page:
    def __init__(self, view: NodeView, wide: bool) -> None:
        self._view = view
        self._wide = wide

    def blocks(self) -> list[Block]:
        return [self._headline(), *self._state(), *self._full(), *self._pods(), *self._waiting()]

    # -- the node ------------------------------------------------------------------------------------------------------

    def _headline(self) -> Line:
        view = self._view
        if not view.waiting:
            return Line(((view.name, "name"), (": no pod is pending", "")))
        taken = sum(len(answer.keys) for answer in view.taken)
        text = f" {taken:,} of {count(view.waiting, 'pending pod')}"
        return Line(((view.name, "name"), (" would take", "good" if taken else "pending"), (text, "")))

    def _state(self) -> list[Block]:
        node = self._view.node
        rows: list[list[Cell]] = []
        if node.spec.unschedulable:
            rows.append(["cordoned", (("no new pods, unless they tolerate it", "pending"),)])
        rows += [["taint", taint_text(taint)] for taint in node.spec.taints]
        for trouble in self._view.troubles:
            known = "" if trouble.tainted else "; no taint says so, and the scheduler looks at nothing else"
            rows.append(["condition", ((f"{trouble.condition}={trouble.status}", "bad"), (known, "pending"))])
        labels = node.metadata.labels if self._wide else self._view.places
        rows += [["label", f"{key}={value}"] for key, value in sorted(labels.items())]
        rows += [
            ["nominated", f"{info.key} (priority {info.priority:,}), for which preemption makes room"]
            for info in self._view.nominated
        ]
        return [Grid(rows)] if rows else []

    def _full(self) -> list[Block]:
        rows = [[use.resource, *_usage(use)] for use in self._view.uses]
        grid = Grid(rows, ("", "", "requested", "of", "free"), frozenset((2, 3, 4)))
        return [Line(), Line((("How full", "head"),)), grid] if rows else []

    def _pods(self) -> list[Block]:
        pods = self._view.pods
        if not pods:
            return [Line(), Line((("No pod is on it", "head"),))]
        shown = pods if self._wide else pods[:_PODS]
        rows: list[list[Cell]] = []
        for info in shown:
            asked = info.shape.used
            amounts = [amount(name, asked[name]) if asked.get(name) else "-" for name in ("cpu", "memory")]
            rows.append([info.key, f"{info.priority:,}", *amounts, "terminating" if info.terminating else ""])
        grid = Grid(rows, ("pod", "priority", "cpu", "memory", ""), frozenset((1, 2, 3)))
        head = f"{count(len(pods), 'pod')} on it"
        blocks: list[Block] = [Line(), Line(((head, "head"), (", the most important first", "dim"))), grid]
        return blocks + _left(len(pods) - len(shown), "pod")

    # -- pending pods --------------------------------------------------------------------------------------------------

    def _waiting(self) -> list[Block]:
        view = self._view
        blocks: list[Block] = []
        if view.taken:
            blocks += self._part("Would take", [_taken(view.name, answer) for answer in view.taken])
        if view.refused:
            blocks += self._part("Refuses", [_refused(answer) for answer in view.refused])
            blocks += self._help()
        if view.untried:
            blocks += self._part("Not tried", [[_who(keys), reason] for keys, reason in view.untried])
        return blocks

    def _part(self, head: str, rows: list[list[Cell]]) -> list[Block]:
        shown = rows if self._wide else rows[:_KINDS]
        return [Line(), Line(((head, "head"),)), Grid(shown), *_left(len(rows) - len(shown), "kind", "of pods")]

    def _help(self) -> list[Block]:
        lines: list[Block] = []
        for answer in self._view.refused[: MAX_HELPED if self._wide else _HELPED]:
            found = answer.help(self._view.row)
            who = ((f"{answer.keys[0]}: ", "name"),)
            shown = found if self._wide else found[:1]
            lines += [Line((*who, *_action_text(suggestion)), 2) for suggestion in shown]
            if not found and answer.eviction is None:
                lines.append(Line((*who, ("no small change would do", "dim")), 2))
            if answer.eviction is not None:
                victims = count(len(answer.eviction.victims), "pod")
                lines.append(Line((*who, (f"preemption could make room here by evicting {victims}", "")), 2))
        return [Line(), Line((("What would let them in", "head"),)), *lines] if lines else []


def _usage(use: Use) -> list[Cell]:
    filled = min(_BAR, round(_BAR * use.used / use.total)) if use.total else _BAR
    bar: Cell = (("█" * filled, "full" if filled == _BAR else "bar"), ("░" * (_BAR - filled), "dim"))
    style = "bad" if use.free <= 0 else ""
    return [bar, use.text(use.used), use.text(use.total), ((use.text(use.free), style),)]


def _who(keys: Sequence[str]) -> Cell:
    more = ((f" and {len(keys) - 1:,} like it", "dim"),) if len(keys) > 1 else ()
    return ((keys[0], "name"), *more)


def _taken(name: str, answer: Answer) -> list[Cell]:
    chosen = answer.verdict.node_name
    if chosen == name:
        return [_who(answer.keys), (("goes here", "best"),)]
    if not answer.behind:
        return [_who(answer.keys), f"as well as {chosen} does: chance decides"]
    return [_who(answer.keys), f"but goes to {chosen}, which has {count(answer.behind, 'point')} more"]


def _refused(answer: Answer) -> list[Cell]:
    elsewhere = f"goes to {answer.verdict.node_name}" if answer.verdict.node_name else "fits nowhere"
    detail = ((f"({sentence((answer.detail, elsewhere))})", "dim"),)
    return [_who(answer.keys), ((answer.plugin, "bad"),), answer.reason, detail]


def _action_text(suggestion: Suggestion) -> tuple[Span, ...]:
    note = ((f" — {suggestion.note}", "dim"),) if suggestion.note else ()
    return ((suggestion.deed, ""), *note)


def _left(number: int, noun: str, of: str = "") -> list[Block]:
    if not number:
        return []
    what = f"{count(number, f'more {noun}')} {of}".rstrip()
    return [Line(((f"… and {what} (-o wide)", "dim"),), 2)]
