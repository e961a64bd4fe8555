"""Who waited, used and paid: sums over the rows of pods by workload, namespace, and the labels of teams and queues.

Everything is computed from rows, so whoever has these can group them by other labels. Memory is bounded: values beyond
the first `_MOST_VALUES` are summed as `(others)`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from stowplan.kube.structs import PlainStruct
from stowplan.kube.timing.waits import Waits
from stowplan_lab.simulation.results.simulation_records import DecisionRow, PartRecord, WaitsRecord

#: Ends that are not evictions.
CALM = (
    *("finished", "failed", "running", "pending", "refused"),
    *("deleted", "scaled down", "updated", "suspended", "job failed"),
)
#: Labels that say whose pods they are: teams, and queues of Kueue and of batch schedulers.
LABELS = ("team", "kueue.x-k8s.io/queue-name", "queue")
_NONE, _OTHERS, _MOST_VALUES = "(none)", "(others)", 1000
_HOUR = 3600.0
_DIGITS = 6


class _Sum(PlainStruct, eq=False):
    waits: Waits
    pods: int = 0
    evictions: int = 0
    cost: float = 0.0
    seconds: Counter[str] | None = None


class Parts:
    def __init__(self) -> None:
        #: (kind, value) -> sums.
        self._sums: dict[str, dict[str, _Sum]] = {"workload": {}, "namespace": {}, **{label: {} for label in LABELS}}

    def add(self, row: DecisionRow, now: float) -> None:
        """A complete row; `now` is the time in the simulation."""
        self._add("workload", row.workload, row, now)
        self._add("namespace", row.pod.partition("/")[0], row, now)
        for label in LABELS:
            self._add(label, row.labels.get(label, ""), row, now)

    def _add(self, kind: str, value: str, row: DecisionRow, now: float) -> None:
        sums = self._sums[kind]
        value = value or _NONE
        if value not in sums and len(sums) >= _MOST_VALUES:
            value = _OTHERS
        found = sums.get(value)
        if found is None:
            found = sums[value] = _Sum(Waits(), seconds=Counter())
        found.pods += 1
        found.evictions += row.end not in CALM
        found.cost += row.cost
        wait = row.wait(now)
        if wait is not None:
            found.waits.add(wait, placed=row.placed is not None)
        if row.placed is not None:
            assert found.seconds is not None
            seconds = (now if row.ended is None else row.ended) - row.placed
            for resource, amount in row.requests.items():
                found.seconds[resource] += amount * seconds  # type: ignore[assignment]

    def records(self) -> Iterator[tuple[str, tuple[PartRecord, ...]]]:
        """Each kind that tells pods apart, and its values: the most expensive first, then those that used most."""
        for kind, sums in self._sums.items():
            if len(sums) > 1 or (kind in LABELS and _NONE not in sums and sums):
                records = [_record(value, found) for value, found in sums.items()]
                yield kind, tuple(sorted(records, key=lambda one: (-one.cost, -max(one.hours.values(), default=0.0))))


def _record(name: str, found: _Sum) -> PartRecord:
    return PartRecord(
        name=name,
        pods=found.pods,
        waits=waits_record(found.waits),
        evictions=found.evictions,
        hours=hours_of(found.seconds or {}),
        cost=round(found.cost, _DIGITS),
    )


def hours_of(seconds: Mapping[str, float]) -> dict[str, float]:
    """Resource -> core hours, GiB hours or hours; from the scheduler's integers × seconds."""
    return {name: round(number / _HOUR / unit_of_hours(name), _DIGITS) for name, number in sorted(seconds.items())}


def unit_of_hours(resource: str) -> int:
    if resource == "cpu":
        return 1000
    binary = resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-")
    return 1 << 30 if binary else 1


def waits_record(waits: Waits) -> WaitsRecord:
    p50, p90, p95, p99 = (round(waits.quantile(share), _DIGITS) for share in (0.5, 0.9, 0.95, 0.99))
    return WaitsRecord(
        pods=waits.count,
        unplaced=waits.unplaced,
        at_once=waits.none,
        mean=round(waits.mean, _DIGITS),
        p50=p50,
        p90=p90,
        p95=p95,
        p99=p99,
        longest=round(waits.longest, _DIGITS),
    )
