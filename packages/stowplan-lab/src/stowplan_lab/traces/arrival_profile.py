"""Workloads whose pods come as often, at the same hours and weekdays, and run as long as those that were measured.

Pods of one owner with equal requests are a workload. Those that were there at the beginning arrive at once; the others
are a Poisson process, in which each hour of the day has the weight of its arrivals, if a day was measured, and each day
of the week, if a week was. Owners with few arrivals have the profile of all.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from stowplan_lab.traces.prometheus import DAY, HOUR

WEEK = 7 * DAY
#: Arrivals from which on an owner has a profile of its own, and the number of run times that stand for all.
_ENOUGH, _RUN_TIMES = 100, 20


def arrival_workloads(rows: Sequence[Sequence[str]], begin: float, end: float) -> Iterator[dict[str, Any]]:
    """Workloads as a scenario has them, of `prometheus.Measured.rows`."""
    header, *pods = rows
    resources = header[5:]
    by_owner: dict[tuple[str, ...], list[Sequence[str]]] = defaultdict(list)
    for row in pods:
        _, _, _, namespace, owner, *amounts = row
        by_owner[namespace, owner, *amounts].append(row)
    everywhere = _profile([row for row in pods if _came_later(row)], begin, end)
    names: Counter[str] = Counter()
    for (namespace, owner, *amounts), own in sorted(by_owner.items()):
        requests = {resource: amount for resource, amount in zip(resources, amounts, strict=True) if amount}
        container = {"name": "main", "image": "measured", "resources": {"requests": requests}}
        # Tables of a simulation are by team.
        metadata = {"labels": {"team": namespace, "owner": owner}}
        pod = {"kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}
        before, later = [row for row in own if not _came_later(row)], [row for row in own if _came_later(row)]
        profile = _profile(later, begin, end) if len(later) >= _ENOUGH else everywhere
        for suffix, these, when in (
            ("-before", before, {"each": len(before)}),
            ("", later, {"poisson": f"{len(later)}/{(end - begin) / HOUR:g}h", **profile}),
        ):
            if these:
                name = f"{namespace}-{owner}{suffix}"
                names[name] += 1
                unique = name if names[name] == 1 else f"{name}-{names[name]}"
                yield {"name": unique, "manifest": pod, **when, **_lifetime([row[1] for row in these])}


def _came_later(row: Sequence[str]) -> bool:
    """Than the beginning."""
    return float(row[0]) > 0


def _profile(pods: Sequence[Sequence[str]], begin: float, end: float) -> dict[str, list[float]]:
    """Arrivals in each hour of the day and day of the week, from Monday, relative to how often it was measured."""
    times = [float(row[0]) for row in pods]
    found: dict[str, list[float]] = {}
    if times and end - begin >= DAY:
        found["hours"] = _weights(times, begin, end, HOUR, 24, 0)
    if times and end - begin >= WEEK:
        # The first day of the epoch was a Thursday.
        found["weekdays"] = _weights(times, begin, end, DAY, 7, 3)
    return found


def _weights(times: Sequence[float], begin: float, end: float, unit: int, cycle: int, shift: int) -> list[float]:
    arrivals = Counter(int((begin + at) // unit + shift) % cycle for at in times)
    # The window has whole hours.
    seen = Counter(int(at // unit + shift) % cycle for at in range(int(begin), int(end), HOUR))
    return [round(arrivals[i] / seen[i], 6) if seen[i] else 0.0 for i in range(cycle)]


def _lifetime(lifetimes: Sequence[str]) -> dict[str, Any]:
    """Run times that stand for all; none if most pods ran to the end."""
    ended = sorted(float(one) for one in lifetimes if one)
    if 2 * len(ended) <= len(lifetimes):
        return {}
    step = max(1, len(ended) / _RUN_TIMES)
    return {"lifetime": {"choice": [f"{ended[int((i + 0.5) * step)]:g}s" for i in range(min(len(ended), _RUN_TIMES))]}}
