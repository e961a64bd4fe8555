"""What a simulation tells: rows and a summary, as plain data that is the same for the same scenario.

Times are seconds since the beginning of the simulation.
"""

from __future__ import annotations

from msgspec import field

from stowplan.inspection.records import Record

#: Grows when a field goes or changes its meaning.
SIMULATION_VERSION = 1


class DecisionRow(Record, frozen=True, kw_only=True):
    """What became of one pod."""

    pod: str
    workload: str = ""
    arrived: float
    attempts: int = 0
    #: Plugin -> attempts in which it refused the pod.
    reasons: dict[str, int] = field(default_factory=dict)
    #: What the last failed attempt said.
    message: str = ""
    placed: float | None = None
    node: str = ""
    evicted: float | None = None
    ended: float | None = None
    #: finished, preempted, drained, …; running, pending or refused.
    end: str = ""


class SampleRow(Record, frozen=True, kw_only=True):
    """How things stood at one moment. Shares are of what the nodes have."""

    time: float
    nodes: int
    running: int
    pending: int
    #: What pods waited for -> how many.
    pending_by: dict[str, int] = field(default_factory=dict)
    #: Resource -> what nodes have, what pods on them use, and what pods use and wait for together.
    allocatable: dict[str, int] = field(default_factory=dict)
    used: dict[str, int] = field(default_factory=dict)
    asked: dict[str, int] = field(default_factory=dict)
    #: Zone or group -> resource -> share in use.
    zones: dict[str, dict[str, float]] = field(default_factory=dict)
    groups: dict[str, dict[str, float]] = field(default_factory=dict)
    nodes_by_group: dict[str, int] = field(default_factory=dict)
    #: Resource -> share of what is free that stands where a typical pod does not fit.
    fragmentation: dict[str, float] = field(default_factory=dict)
    #: So far.
    cost: float = 0.0


class CauseRecord(Record, frozen=True, kw_only=True):
    cause: str
    #: How often pods began to wait for it.
    pods: int
    seconds: float


class WaitsRecord(Record, frozen=True, kw_only=True):
    """From arrival to placement, in seconds."""

    pods: int
    at_once: int
    mean: float
    p50: float
    p90: float
    p95: float
    p99: float
    longest: float


class SummaryRecord(Record, frozen=True, kw_only=True):
    name: str
    version: int = SIMULATION_VERSION
    seed: int
    #: Seconds that were simulated.
    simulated: float
    #: Whether it was broken off.
    interrupted: bool = False
    arrived: int
    placements: int
    attempts: int
    #: How pods ended -> how many.
    ends: dict[str, int]
    evictions: int
    waits: WaitsRecord
    causes: tuple[CauseRecord, ...] = ()
    #: Resource -> mean share in use, over time.
    utilisation: dict[str, float] = field(default_factory=dict)
    fragmentation: dict[str, float] = field(default_factory=dict)
    cost: float = 0.0
    cost_by_group: dict[str, float] = field(default_factory=dict)
    nodes_at_end: int = 0
    nodes_most: int = 0
    nodes_mean: float = 0.0
    #: Nodes that the autoscaler has added and removed.
    nodes_added: int = 0
    nodes_removed: int = 0
    #: Of all rows: equal for equal decisions.
    digest: str = ""
    notes: tuple[str, ...] = ()
