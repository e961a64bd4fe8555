"""The summary of a simulation as a page of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stowplan.ask.explain.text.tables import Block, Grid, Line
from stowplan.scheduler.framework.explanations.formatting import count
from stowplan_lab.simulation.results.simulation_records import PartRecord, SummaryRecord, WaitsRecord


def span_text(seconds: float) -> str:
    """In the largest unit of which there are at least two."""
    for unit, length in (("d", 86_400.0), ("h", 3_600.0), ("m", 60.0)):
        if seconds >= 2 * length:
            number = f"{seconds / length:.1f}"
            return f"{number.removesuffix('.0')} {unit}"
    return f"{seconds:.0f} s" if seconds >= 10 or seconds == int(seconds) else f"{seconds:.2g} s"


def cost_text(summary: SummaryRecord, cost: float | None = None) -> str:
    """Of the cost, or of a part of it."""
    return f"{summary.cost if cost is None else cost:,.2f} {summary.currency}".rstrip()


_CAUSES = 6
_PARTS = 8


def parts_table(summary: SummaryRecord, parts: Sequence[PartRecord]) -> list[tuple[str, ...]]:
    """A head, and a row for each."""
    resources = sorted({name for part in parts for name in part.hours})
    costs = [summary.currency or "cost"] if summary.cost else []
    head = ("name", "pods", "no node", "mean wait", "p95 wait", "evicted", *map(hours_title, resources), *costs)
    return [head, *(_part_row(part, resources, bool(costs)) for part in parts)]


def hours_title(resource: str) -> str:
    unit = {"cpu": "core hours", "memory": "GiB hours", "ephemeral-storage": "GiB hours of disk"}
    return unit.get(resource) or f"{resource} hours"


def _part_row(part: PartRecord, resources: Sequence[str], costs: bool) -> tuple[str, ...]:
    waits = part.waits
    return (
        part.name,
        f"{part.pods:,}",
        f"{waits.unplaced:,}",
        span_text(waits.mean),
        span_text(waits.p95),
        f"{part.evictions:,}",
        *(f"{part.hours.get(name, 0.0):,.1f}" for name in resources),
        *([f"{part.cost:,.2f}"] if costs else []),
    )


def summary_page(summary: SummaryRecord, folder: str | None) -> list[Block]:
    """`folder`: where the results are, if they are kept."""
    return list(_blocks(summary, folder))


def _blocks(summary: SummaryRecord, folder: str | None) -> Iterator[Block]:
    ended = " (interrupted)" if summary.interrupted else ""
    version = f", as Kubernetes {summary.emulated_version}"
    yield Line(
        (
            (summary.name, "name"),
            (f": {span_text(summary.simulated)} simulated{ended}, seed {summary.seed}{version}", ""),
        )
    )
    yield Line()
    yield Grid([(name, text) for name, text in summary_facts(summary)])
    if summary.causes:
        yield Line()
        yield Line("What pods waited for:")
        causes = [(one.cause, f"{one.pods:,}", span_text(one.seconds / one.pods)) for one in summary.causes[:_CAUSES]]
        yield Grid(causes, header=("cause", "times", "mean wait"), right=frozenset((1, 2)))
        if len(summary.causes) > _CAUSES:
            yield Line(f"… and {count(len(summary.causes) - _CAUSES, 'more cause')}", indent=2)
    for kind, parts in summary.parts.items():
        if kind != "namespace":
            yield Line()
            yield Line(f"By {kind}:")
            head, *rows = parts_table(summary, parts[:_PARTS])
            yield Grid(rows, header=head, right=frozenset(range(1, len(head))))
            if len(parts) > _PARTS:
                yield Line(f"… and {len(parts) - _PARTS:,} more, see summary.json", indent=2)
    for note in summary.notes:
        yield Line((("note: ", "dim"), (note, "")))
    if folder is not None:
        yield Line()
        yield Line(f"Results are in {folder}; open {folder}/report.html for pictures.")


def unplaced_text(waits: WaitsRecord) -> str:
    return (
        f"{waits.unplaced:,} of {count(waits.pods, 'pod')} never got a node; their waits count until they were deleted "
        "or the run ended, as lower bounds"
    )


def summary_facts(summary: SummaryRecord) -> Iterator[tuple[str, str]]:
    waits = summary.waits
    yield "pods", f"{summary.arrived:,} arrived, {summary.placements:,} placements, {summary.attempts:,} attempts"
    yield "ended", ", ".join(f"{number:,} {how}" for how, number in summary.ends.items()) or "none"
    if summary.jobs:
        yield "Jobs", ", ".join(f"{number:,} {outcome}" for outcome, number in summary.jobs.items())
    yield "evictions", f"{summary.evictions:,}"
    if waits.pods:
        yield (
            "waits",
            f"{waits.at_once / waits.pods:.1%} none, mean {span_text(waits.mean)}, median {span_text(waits.p50)}, "
            f"p95 {span_text(waits.p95)}, p99 {span_text(waits.p99)}, longest {span_text(waits.longest)}",
        )
        if waits.unplaced:
            yield "", unplaced_text(waits)
    yield "in use", ", ".join(f"{name} {share:.1%}" for name, share in summary.utilization.items()) or "nothing"
    yield "fragmented", ", ".join(f"{name} {share:.1%}" for name, share in summary.fragmentation.items()) or "nothing"
    if summary.busiest:
        yield "busiest", ", ".join(f"{name} {share:.1%}" for name, share in summary.busiest.items()) + " of a node"
    yield (
        "nodes",
        f"{summary.nodes_mean:,.1f} on average, {summary.nodes_most:,} at most; the autoscaler added "
        f"{summary.nodes_added:,} and removed {summary.nodes_removed:,}",
    )
    if summary.cost:
        groups = ", ".join(f"{name} {cost:,.2f}" for name, cost in summary.cost_by_group.items())
        yield (
            "cost",
            f"{cost_text(summary)} ({groups}); {summary.cost_idle / summary.cost:.1%} for what nobody requested",
        )
