"""A summary of many pods by cause.

Pods that no plugin can tell apart form a group, whose first verdict applies to all of them. The cause is what rejects
most nodes, as resolving it would gain the most.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from msgspec import UNSET

from stowplan.explain.text.tables import Grid, Line
from stowplan.explain.verdicts.refusals import refusals
from stowplan.framework.explanations.formatting import count
from stowplan.inspection.records import CauseRecord, SummaryRecord
from stowplan.structs import PlainStruct

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stowplan.explain.text.tables import Block, Cell
    from stowplan.explain.verdicts.verdict import Verdict
    from stowplan.inspection.records import ReliefRecord

#: Maximum number of items per part in the short form.
_CAUSES, _NAMESPACES, _RELIEF = 8, 6, 5


class Group(PlainStruct, frozen=True):
    """Pods that share a verdict."""

    verdict: Verdict
    #: Keys of the other pods.
    alike: tuple[str, ...] = ()
    #: The node for which they wait on Permit, according to their scheduler.
    permit_node: str = ""

    @property
    def keys(self) -> tuple[str, ...]:
        return (self.verdict.key, *self.alike)

    @property
    def is_refused(self) -> bool:
        """They were judged, and no node is feasible."""
        return self.state == "refused"

    @property
    def state(self) -> str:
        verdict = self.verdict
        if self.permit_node:
            return "on permit"
        if verdict.error is not None:
            return "unjudged"
        if verdict.gated is not None:
            return "gated"
        return "placeable" if verdict.node_name else "refused"


def summary(groups: Sequence[Group], relief: Sequence[ReliefRecord] = (), together: int | None = None) -> SummaryRecord:
    """`relief`: verified changes that would help. `together`: how many of the placeable pods have room at once."""
    of_state: Counter[str] = Counter()
    namespaces: Counter[str] = Counter()
    of_cause: dict[tuple[str, str], Counter[str]] = {}
    for group in groups:
        state = group.state
        of_state[state] += len(group.keys)
        where = Counter(key.partition("/")[0] for key in group.keys)
        namespaces += where
        if state == "on permit":
            of_cause.setdefault(("", "waits on Permit"), Counter()).update(where)
        elif state != "placeable":
            of_cause.setdefault(_cause(group.verdict), Counter()).update(where)
    causes = [
        CauseRecord(plugin=plugin, reason=reason, pods=where.total(), namespaces=dict(where.most_common()))
        for (plugin, reason), where in of_cause.items()
    ]
    return SummaryRecord(
        pods=namespaces.total(),
        on_permit=of_state["on permit"],
        placeable=of_state["placeable"],
        together=UNSET if together is None else together,
        refused=of_state["refused"],
        gated=of_state["gated"],
        unjudged=of_state["unjudged"],
        causes=tuple(sorted(causes, key=lambda cause: (-cause.pods, cause.plugin, cause.reason))),
        namespaces=dict(namespaces.most_common()),
        relief=tuple(relief),
    )


def _cause(verdict: Verdict) -> tuple[str, str]:
    """(plugin, reason). Messages that contain the pod's name would be a separate cause for each pod."""
    if verdict.error is not None:
        return verdict.error.plugin, verdict.error.message.replace(f'"{verdict.key}"', "the pod")
    if verdict.gated is not None:
        return verdict.gated.plugin, verdict.gated.message
    groups = refusals(verdict.diagnosis) if verdict.diagnosis is not None else []
    return (groups[0].plugin, groups[0].text) if groups else ("", verdict.message)


# -- pages -------------------------------------------------------------------------------------------------------------


def overview(record: SummaryRecord, *, wide: bool = False) -> list[Block]:
    """The summary that precedes the groups."""
    blocks: list[Block] = [_headline(record)]
    if record.causes:
        blocks += [Line(), Line((("Why they wait", "head"),)), *_causes(record, wide)]
    if len(record.namespaces) > 1:
        blocks += [Line(), Line((("By namespace", "head"),)), *_namespaces(record, wide)]
    if record.relief:
        blocks += [Line(), Line((("What would help most", "head"),)), *_relief(record, wide)]
    return blocks


def _headline(record: SummaryRecord) -> Line:
    states = (
        (record.on_permit, "wait on Permit" if record.on_permit != 1 else "waits on Permit", "pending"),
        (record.placeable, _placeable(record), "pending" if crowded(record) else "good"),
        (record.refused, "fit nowhere" if record.refused != 1 else "fits nowhere", "bad"),
        (record.gated, "gated", "pending"),
        (record.unjudged, "not judged", "bad"),
    )
    states_shown = [((f"{number:,} {what}", style)) for number, what, style in states if number]
    spans = [span for state in states_shown for span in ((", ", ""), state)][1:]
    return Line(((count(record.pods, "pod"), "name"), (": ", ""), *spans))


def crowded(record: SummaryRecord) -> bool:
    """Whether some pods would each get a node now, but not all of them together."""
    return record.together is not UNSET and record.together < record.placeable


def _placeable(record: SummaryRecord) -> str:
    if not crowded(record):
        return "would get a node now"
    return f"would each get a node now, but only {record.together:,} of them together"


def _causes(record: SummaryRecord, wide: bool) -> list[Block]:
    shown = record.causes if wide else record.causes[:_CAUSES]
    rows: list[list[Cell]] = [
        [count(cause.pods, "pod"), ((cause.plugin, "bad"),), cause.reason, ((_listed(cause.namespaces, wide), "dim"),)]
        for cause in shown
    ]
    return [Grid(rows, right=frozenset((0,))), *_more(len(record.causes) - len(shown), "cause")]


def _listed(namespaces: dict[str, int], wide: bool) -> str:
    """The first ones, which have the most pods."""
    shown = list(namespaces) if wide else list(namespaces)[:3]
    left = len(namespaces) - len(shown)
    return f"({', '.join(shown)}{f' and {left:,} more' if left else ''})"


def _namespaces(record: SummaryRecord, wide: bool) -> list[Block]:
    shown = list(record.namespaces.items())[: None if wide else _NAMESPACES]
    rows: list[list[Cell]] = [[count(number, "pod"), name] for name, number in shown]
    return [Grid(rows, right=frozenset((0,))), *_more(len(record.namespaces) - len(shown), "namespace")]


def _relief(record: SummaryRecord, wide: bool) -> list[Block]:
    blocks: list[Block] = []
    shown = record.relief if wide else record.relief[:_RELIEF]
    for number, one in enumerate(shown, start=1):
        gain = f"places {count(one.pods, 'pod')}"
        note = ((f" — {one.note}", "dim"),) if one.note else ()
        text = ((f"{number}. ", "dim"), (f"{one.text}: ", ""), (gain, "good"), *note)
        blocks.append(Line(text, 2, marked=True))
    return [*blocks, *_more(len(record.relief) - len(shown), "change")]


def _more(left: int, what: str) -> list[Block]:
    return [Line(((f"… and {count(left, f'more {what}')} (-o wide)", "dim"),), 2)] if left > 0 else []
