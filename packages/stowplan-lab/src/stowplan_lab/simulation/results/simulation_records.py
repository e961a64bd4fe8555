"""Results of a simulation: rows and a summary, as plain data that is the same for the same scenario.

Times are seconds since the start of the simulation.
"""

from __future__ import annotations

from msgspec import field

from stowplan.scheduler.inspection.records import Record

#: Incremented when a field is removed or changes its meaning.
SIMULATION_VERSION = 2


class DecisionRow(Record, frozen=True, kw_only=True):
    """The history of one pod."""

    pod: str
    workload: str = ""
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
    cost: float = 0.0
    currency: str = ""
    cost_by_group: dict[str, float] = field(default_factory=dict)
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
