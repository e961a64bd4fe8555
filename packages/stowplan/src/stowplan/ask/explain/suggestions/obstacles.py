"""Facts that keep a pod off every node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.ask.explain.verdicts.refusals import for_nominated
from stowplan.scheduler.framework.explanations.formatting import count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stowplan.ask.explain.suggestions.explanations import Explanations
    from stowplan.ask.explain.suggestions.inspection import VerdictInspection


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
