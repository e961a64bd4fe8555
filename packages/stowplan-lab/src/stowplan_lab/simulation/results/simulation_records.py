"""Results of a simulation: rows and a summary, as plain data that is the same for the same scenario.

Times are seconds since the start of the simulation. `UNITS` has the unit of every number, which the summary and the
columns of Parquet files and data frames name, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean

from msgspec import field

from stowplan.scheduler.inspection.records import Record

#: Incremented when a field is removed or changes its meaning.
SIMULATION_VERSION = 2

#: Field, in the files' spelling -> unit; resources are those of mappings by resource.
UNITS = {
    **dict.fromkeys(("time", "arrived", "placed", "evicted", "ended", "waits", "seconds", "simulated"), "s"),
    "cpu": "millicores",
    **dict.fromkeys(("memory", "ephemeral-storage"), "bytes"),
    "other resources": "counts",
    "hours.cpu": "core hours",
    **dict.fromkeys(("hours.memory", "hours.ephemeral-storage"), "GiB hours"),
    "hours of other resources": "hours",
}


class DecisionRow(Record, frozen=True, kw_only=True):
    """The history of one pod."""

    pod: str
    workload: str = ""
    #: The PodGroup, with its namespace.
    gang: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    #: Resource -> requested amount, in the integers of `SampleRow.used`.
    requests: dict[str, int] = field(default_factory=dict)
    arrived: float
    attempts: int = 0
    #: Plugin -> number of attempts in which it rejected the pod.
    reasons: dict[str, int] = field(default_factory=dict)
    #: The message of the last failed attempt.
    message: str = ""
    placed: float | None = None
    node: str = ""
    evicted: float | None = None
    ended: float | None = None
    #: Number of times it was started again after a failure.
    restarts: int = 0
    #: finished, failed, preempted, drained, …; running, pending or refused.
    end: str = ""
    #: Its share of the price of its node, see `Fleet.share_of_price`.
    cost: float = 0.0

    def wait(self, until: float) -> float | None:
        """How long it waited for a node, `until` the end of the simulation if it still does; None if it did not."""
        if self.end == "refused" or (self.placed is not None and not self.attempts):
            return None
        return (self.placed if self.placed is not None else until if self.ended is None else self.ended) - self.arrived


def gang_measures(rows: Iterable[DecisionRow], until: float, since: float = 0.0) -> dict[str, float]:
    """Waits in seconds of the gangs that arrived since: of each, the longest of the pods that arrived first.

    Pods that are recreated later do not count: the gang had its room. Without gangs there are no measures.
    """
    arrived: dict[str, float] = {}
    waited: dict[str, float] = {}
    for row in sorted((row for row in rows if row.gang), key=lambda row: row.arrived):
        wait = row.wait(until)
        is_first = arrived.setdefault(row.gang, row.arrived) == row.arrived >= since
        if is_first and wait is not None:
            waited[row.gang] = max(wait, waited.get(row.gang, 0.0))
    return {"gangs.mean": fmean(waited.values()), "gangs.longest": max(waited.values())} if waited else {}


class SampleRow(Record, frozen=True, kw_only=True):
    """The state at one time. Shares are of the nodes' allocatable."""

    time: float
    nodes: int
    running: int
    pending: int
    #: Cause of waiting -> number of pods.
    pending_by: dict[str, int] = field(default_factory=dict)
    #: Resource -> allocatable of nodes, used by placed pods, and requested by all pods.
    allocatable: dict[str, int] = field(default_factory=dict)
    used: dict[str, int] = field(default_factory=dict)
    asked: dict[str, int] = field(default_factory=dict)
    #: Zone or group -> resource -> used share.
    zones: dict[str, dict[str, float]] = field(default_factory=dict)
    groups: dict[str, dict[str, float]] = field(default_factory=dict)
    nodes_by_group: dict[str, int] = field(default_factory=dict)
    #: Resource -> share of the free amount that is on nodes where a typical pod does not fit.
    fragmentation: dict[str, float] = field(default_factory=dict)
    #: Workload with an autoscaler -> its replicas.
    replicas: dict[str, int] = field(default_factory=dict)
    #: Resource -> the highest load of a node; empty unless the scenario has `usage`.
    busiest: dict[str, float] = field(default_factory=dict)
    #: Cumulative.
    cost: float = 0.0


class CauseRecord(Record, frozen=True, kw_only=True):
    cause: str
    #: How often pods started to wait for it.
    pods: int
    seconds: float


class WaitsRecord(Record, frozen=True, kw_only=True):
    """In seconds; `timing.waits` defines a wait."""

    pods: int
    #: Of them, how many never got a node: their waits are lower bounds.
    unplaced: int
    at_once: int
    mean: float
    p50: float
    p90: float
    p95: float
    p99: float
    longest: float


class PartRecord(Record, frozen=True, kw_only=True):
    """Sums over the pods with the same workload, namespace or value of a label."""

    name: str
    pods: int
    waits: WaitsRecord
    evictions: int
    #: Resource -> requested amount × hours with a node, in the units of `UNITS`.
    hours: dict[str, float] = field(default_factory=dict)
    cost: float = 0.0


class SummaryRecord(Record, frozen=True, kw_only=True):
    name: str
    description: str = ""
    version: int = SIMULATION_VERSION
    seed: int
    #: Simulated seconds.
    simulated: float
    #: Whether it was stopped early.
    interrupted: bool = False
    arrived: int
    placements: int
    attempts: int
    #: End -> number of pods.
    ends: dict[str, int]
    #: Outcome of Jobs (complete, running, or why it failed) -> their number.
    jobs: dict[str, int] = field(default_factory=dict)
    evictions: int
    waits: WaitsRecord
    causes: tuple[CauseRecord, ...] = ()
    #: Resource -> mean used share over time.
    utilization: dict[str, float] = field(default_factory=dict)
    fragmentation: dict[str, float] = field(default_factory=dict)
    #: Resource -> mean over time of the highest load of a node; empty unless the scenario has `usage`.
    busiest: dict[str, float] = field(default_factory=dict)
    cost: float = 0.0
    currency: str = ""
    cost_by_group: dict[str, float] = field(default_factory=dict)
    #: Of the cost, what no pod had requested.
    cost_idle: float = 0.0
    #: Resource -> allocatable amount × hours that no pod had requested, in the units of `UNITS`.
    idle_hours: dict[str, float] = field(default_factory=dict)
    #: `workload`, `namespace` or a label -> its values, with the most expensive or largest first.
    parts: dict[str, tuple[PartRecord, ...]] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=UNITS.copy)
    nodes_at_end: int = 0
    nodes_most: int = 0
    nodes_mean: float = 0.0
    #: Nodes that the autoscaler added and removed.
    nodes_added: int = 0
    nodes_removed: int = 0
    #: The version of kube-scheduler that decided.
    emulated_version: str
    #: Of all rows: equal for equal decisions.
    digest: str = ""
    notes: tuple[str, ...] = ()
