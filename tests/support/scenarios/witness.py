"""Checks simulations with an independent account of the store, to compare with the ledger.

A `Witness` sees every change of nodes and pods. While the simulation runs, no node may be overcommitted; at the end the
rows must match what it saw, pod by pod, and the engine must know the contents of the store.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import ceil
from statistics import fmean

import pytest

from stowplan.kube.api.meta import controller_of
from stowplan.kube.api.pod import FINISHED, Pod
from stowplan.kube.api.pod_requests import pod_requests, to_vector
from stowplan.kube.api.quantity import milli_value, parse_quantity, value
from stowplan.kube.api.types import Node
from stowplan_cluster.reconcile.nodes import QUARANTINE_SECONDS
from stowplan_lab.compare.comparison import values_of
from stowplan_lab.simulation.simulate import Simulation
from stowplan_lab.tuning.objective import measured_since

#: A pod may be bound to a node that is gone, and is removed after this many seconds.
ORPHANED = QUARANTINE_SECONDS + 1


@dataclass
class Seen:
    """The history of a pod, in seconds since the start."""

    pod: Pod
    arrived: float
    placed: float | None = None
    node: str = ""
    marked: float | None = None
    ended: float | None = None

    @property
    def key(self):
        return f"{self.pod.metadata.namespace}/{self.pod.metadata.name}"

    @property
    def controller(self):
        return controller_of(self.pod.metadata)

    def is_there(self, at):
        return self.arrived <= at and (self.ended is None or self.ended > at)


class Witness:
    def __init__(self, simulation):
        self._simulation = simulation
        #: UID -> pod, of all pods ever.
        self.pods = {}
        #: Node -> its labels, of all nodes ever; and when deleted ones were deleted.
        self.labels, self.gone = {}, {}
        self._nodes, self._used = {}, {}

    @property
    def now(self):
        return round(self._simulation.context.now - self._simulation.context.start, 6)

    def changed(self, change):
        old, new = change.old, change.new
        kind = type(old if new is None else new)
        if kind is Node:
            self._node_changed(old, new)
        elif kind is Pod:
            self._pod_changed(old, new)

    def _node_changed(self, old, new):
        name = (new or old).metadata.name
        if new is None:
            del self._nodes[name]
            self.gone[name] = self.now
        else:
            self._nodes[name] = {resource: _amount(resource, text) for resource, text in new.status.allocatable.items()}
            self.labels[name] = new.metadata.labels
            self.gone.pop(name, None)

    def _pod_changed(self, old, new):
        uid = (new or old).metadata.uid
        if old is None:
            assert uid not in self.pods, f"{uid} was created twice"
            self.pods[uid] = Seen(new, self.now)
        seen = self.pods[uid]
        if new is not None and new.spec.node_name and not seen.node:
            seen.node, seen.placed = new.spec.node_name, self.now
            self._count(seen, 1)
        if new is not None and new.metadata.deletion_timestamp and seen.marked is None:
            seen.marked = self.now
        if (new is None or new.status.phase in FINISHED) and seen.ended is None:
            seen.ended = self.now
            if seen.node:
                self._count(seen, -1)

    def _count(self, seen, sign):
        used = self._used.setdefault(seen.node, Counter())
        for resource, amount in {**to_vector(pod_requests(seen.pod)), "pods": 1}.items():
            used[resource] += sign * amount
        # A binding may be carried out after its node was deleted.
        have = self._nodes.get(seen.node)
        if sign > 0 and have is not None:
            over = {name: amount for name, amount in used.items() if amount > have.get(name, 0)}
            assert not over, f"{seen.node} has {have}, and its pods request {used}"

    # -- at the end ---------------------------------------------------------------------------------------------------

    def check(self, found):
        """The rows and the summary match what was seen."""
        rows = [row for row in found.decisions if row.end != "refused"]
        told = [(row.pod, row.arrived, row.placed, row.node, row.ended) for row in rows]
        pods = self.pods.values()
        assert sorted(told, key=str) == sorted(((p.key, p.arrived, p.placed, p.node, p.ended) for p in pods), key=str)
        marks = {(p.key, p.arrived, p.ended): p.marked for p in pods}
        for row in rows:
            if row.evicted is not None:
                mark = marks[row.pod, row.arrived, row.ended]
                assert row.evicted == (row.ended if mark is None else mark)
        for one in self.pods.values():
            went = self.gone.get(one.node)
            if went is not None and one.ended is None:
                assert self.now - max(went, one.placed) < ORPHANED, f"{one.pod.metadata.name} is on {one.node}, gone"
        assert found.summary.placements == sum(one.placed is not None for one in self.pods.values())

    def check_engine(self):
        """Where events arrive at once: the engine knows each pod and its node."""
        engine = self._simulation.engine
        placed = {info.uid: info.node_name for info in engine.state.placed_pods()}
        bound = {uid: one.node for uid, one in self.pods.items() if one.ended is None and one.node}
        assert {uid: node for uid, node in placed.items() if not engine.state.is_assumed(uid)} == bound
        waiting = {uid for uid, one in self.pods.items() if one.ended is None and not one.node}
        ours = {uid for uid in waiting if self.pods[uid].pod.spec.scheduler_name in ("", *engine.frameworks)}
        # Assumed pods are being bound.
        assert {queued.pod.uid for queued in engine.queue.pending()} == ours - placed.keys()


def _amount(resource, text):
    nano = parse_quantity(text)
    return milli_value(nano) if resource == "cpu" else value(nano)


class _Witnessed(Simulation):
    def _begin(self):
        self.witness = Witness(self)
        self.context.time.watch(self.witness)
        super()._begin()


def witnessed(scenario, **options):
    """(result, witness) of a simulation whose rows are kept."""

    def validate(progress, simulation):
        if progress.time % 60 == 0:
            simulation.engine.validate()

    simulation, rows = _Witnessed(scenario, **options), []
    found = simulation.run(lambda row, line: rows.append(row), validate)
    found.decisions = rows
    check_sums(found)
    simulation.witness.check(found)
    return found, simulation.witness


def run(scenario, **options):
    return witnessed(scenario, **options)[0]


def check_sums(found):
    """Every pod that was created is placed, pending, finished or refused, and is in one row."""
    summary, rows = found.summary, found.decisions
    assert len(rows) == summary.arrived == sum(summary.ends.values())
    assert Counter(row.end for row in rows) == summary.ends
    for row in rows:
        assert (row.node != "") == (row.placed is not None)
        assert (row.end == "pending") == (row.placed is None and row.ended is None)
        if row.end == "running":
            assert row.ended is None
        times = [one for one in (row.arrived, row.placed, row.evicted, row.ended) if one is not None]
        assert times == sorted(times)
    # The scheduler may try a pod of whose deletion it learns later.
    assert sum(row.attempts for row in rows) <= summary.attempts
    check_waits(found)


def check_waits(found):
    """The summary's waits, recounted from the rows; a part from the start, and comparisons have the same."""
    summary, waits = found.summary, found.summary.waits
    waiting = [row for row in found.decisions if row.end != "refused" and (row.attempts or row.placed is None)]
    exact = sorted(_first(row.placed, row.ended, summary.simulated) - row.arrived for row in waiting)
    assert waits.pods == len(exact)
    assert waits.pods - waits.unplaced == summary.placements
    if exact:
        assert waits.mean == pytest.approx(fmean(exact), abs=1e-3)
        assert waits.longest == pytest.approx(exact[-1], abs=1e-3)
        for share, quantile in ((0.5, waits.p50), (0.95, waits.p95), (0.99, waits.p99)):
            assert quantile == pytest.approx(exact[ceil(share * len(exact)) - 1], rel=0.011, abs=1e-3)
    part, compared = measured_since(found, 0.0), values_of(summary)
    for measure in ("waits.mean", "waits.p95", "waits.longest", "unplaced", "evictions"):
        assert part[measure] == pytest.approx(compared[measure], rel=0.011, abs=1e-3), measure


def _first(*times):
    return next(one for one in times if one is not None)
