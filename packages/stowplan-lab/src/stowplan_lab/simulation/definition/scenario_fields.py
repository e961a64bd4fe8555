"""The fields of a scenario: one frozen struct per part; `docs/use/simulate.md` explains every field.

The YAML is decoded to these structs (`load`), the JSON schema for editors is derived from them, and a simulation is
built from them. They can be pickled, so that simulations can run in other processes.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import count, repeat
from math import log
from random import Random
from typing import Any

import msgspec

from stowplan.kube.config import FeatureGates
from stowplan.kube.config.features import with_chosen
from stowplan.kube.kubernetes_versions import version_or_default
from stowplan_lab.simulation.definition.amounts import Distribution, Rate, Span, Times, Usage

ZONE = "topology.kubernetes.io/zone"
_HOUR = 3600.0


def _read(type_: type[Distribution | Span | Times], value: object) -> Any:
    """A default built per instance, because JSON schemas cannot show amounts."""
    return msgspec.field(default_factory=partial(type_.read, value))


class Spec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """A part of a scenario; unknown fields are errors."""


# -- the cluster ------------------------------------------------------------------------------------------------------


class TaintSpec(Spec, frozen=True, kw_only=True):
    key: str
    value: str = ""
    effect: str = "NoSchedule"


class AutoscaleSpec(Spec, frozen=True, kw_only=True):
    """The limits within which the autoscaler model resizes a group."""

    min: int = 0
    max: int
    #: From the decision until the node exists.
    boot: Distribution = _read(Distribution, "90s")
    #: A node without pods (except for DaemonSets') is removed after this.
    idle: Span = _read(Span, 600)
    #: A node is drained after that if its larger share of cpu and memory is below this, and its pods fit elsewhere.
    utilization: float = 0.5


class GroupSpec(Spec, frozen=True, kw_only=True):
    """Identical nodes."""

    name: str
    count: int = 0
    #: As in a Node's status.allocatable.
    capacity: dict[str, int | float | str]
    #: Nodes are distributed round robin over the zones.
    zones: tuple[str, ...] = ()
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    taints: tuple[TaintSpec, ...] = ()
    #: Of a node, per hour.
    price: float = 0.0
    autoscale: AutoscaleSpec | None = None


class ClusterSpec(Spec, frozen=True, kw_only=True):
    """The initial cluster: the union of everything named here."""

    #: Manifests and dumps, relative to the scenario's folder.
    files: tuple[str, ...] = ()
    #: The run time of pods of the files' CronJobs; by default, as long as Jobs that have completed took.
    cron_job_lifetime: Distribution | None = None
    #: A live cluster, read once.
    kubeconfig: str | None = None
    context: str | None = None
    live: bool = False
    #: The nodes of a trace.
    trace: dict[str, Any] | None = None
    groups: tuple[GroupSpec, ...] = ()


class SchedulerSpec(Spec, frozen=True, kw_only=True):
    #: A file with a KubeSchedulerConfiguration, or the configuration itself.
    config: str | dict[str, Any] | None = None
    #: MODULE:CLASS of plugins.
    plugins: tuple[str, ...] = ()
    feature_gates: dict[str, bool] = msgspec.field(default_factory=dict)
    #: The version of kube-scheduler to decide as; None: that of the cluster that it starts with, or the default.
    emulated_version: str | None = None

    @property
    def features(self) -> FeatureGates:
        """Raises VersionError, GateError."""
        return with_chosen(self.feature_gates, version_or_default(self.emulated_version))


# -- events ------------------------------------------------------------------------------------------------------------


class When(Spec, frozen=True, kw_only=True):
    """The times at which something happens: once, several times, at a rate, or randomly."""

    at: Times = _read(Times, 0)
    #: The interval.
    every: Distribution | None = None
    rate: Rate | None = None
    #: The rate of a Poisson process.
    poisson: Rate | None = None
    #: The number of times.
    count: int | None = None
    until: Span | None = None
    #: The profile of a rate: weights of the 24 hours of a day and the 7 days of a week, from Monday, in UTC.
    hours: tuple[float, ...] = ()
    weekdays: tuple[float, ...] = ()


class FailuresSpec(Spec, frozen=True, kw_only=True):
    """How often runs of pods fail: with a probability, or the first ones."""

    probability: float = 0.0
    #: Of each pod; of a Job, or of each index of an Indexed one.
    times: int | None = None
    #: How long a run lasts that fails; by default as long as one that succeeds.
    after: Distribution | None = None


#: A recreated pod runs as long as at first; or only for the rest, as a service does, or a Job with checkpoints.
RUN_ANEW, RUN_REST = "anew", "rest"


class UsageSpec(Spec, frozen=True, kw_only=True):
    """What a workload's pods use; half of what they request by default."""

    cpu: Usage | None = None
    memory: Usage | None = None


class WorkloadSpec(When, frozen=True, kw_only=True):
    """Arriving pods, or workloads that create them."""

    name: str
    #: Of a Pod, Deployment, ReplicaSet, StatefulSet, DaemonSet, Job or CronJob; `file`: the same in a file.
    manifest: dict[str, Any] | None = None
    file: str | None = None
    trace: dict[str, Any] | None = None
    #: Number of arrivals each time.
    each: int = 1
    #: Each arrival of Pods or of a Job has a PodGroup with this spec; by default a gang of all its pods.
    pod_group: dict[str, Any] | None = None
    #: The run time of a pod after it has started; by default forever.
    lifetime: Distribution | None = None
    failures: FailuresSpec | None = None
    #: Divides the times of a trace.
    speed: float = 1.0
    #: A trace's pods that lose their nodes are recreated: RUN_ANEW, or RUN_REST; "": nobody recreates them.
    recreate: str = ""
    #: The profile of its pods, instead of their own.
    scheduler_name: str = ""
    #: What autoscalers measure.
    usage: UsageSpec | None = None


class NodesSpec(Spec, frozen=True, kw_only=True):
    """Selects nodes: those that match all criteria; of these, `count` random ones."""

    nodes: tuple[str, ...] = ()
    group: str = ""
    zone: str = ""
    count: int | None = None


class FailSpec(NodesSpec, frozen=True, kw_only=True):
    """Nodes fail without notice, and return after a time, or never."""

    for_: Distribution | None = msgspec.field(default=None, name="for")


class OutageSpec(Spec, frozen=True, kw_only=True):
    """All nodes of a zone fail, and no new one starts there."""

    zone: str
    for_: Distribution = msgspec.field(name="for")


class DrainSpec(NodesSpec, frozen=True, kw_only=True):
    """Nodes are cordoned and their pods evicted, subject to budgets; afterwards they are removed, or uncordoned."""

    then: str = "uncordon"
    #: Between the last eviction and the removal or uncordon.
    for_: Span = msgspec.field(name="for", default_factory=partial(Span.read, 0))


class UpgradeSpec(NodesSpec, frozen=True, kw_only=True):
    """Nodes are drained and replaced by new ones, a number of them at a time."""

    at_once: int = 1
    #: Until the new node exists.
    takes: Distribution = _read(Distribution, "5m")


class ReclaimSpec(NodesSpec, frozen=True, kw_only=True):
    """The provider reclaims nodes after a notice, during which their pods are evicted."""

    notice: Span = _read(Span, 120)


class TaintEventSpec(NodesSpec, frozen=True, kw_only=True):
    key: str
    value: str = ""
    effect: str = "NoSchedule"
    for_: Span | None = msgspec.field(default=None, name="for")


class PriceSpec(Spec, frozen=True, kw_only=True):
    group: str
    price: float


class ScaleSpec(Spec, frozen=True, kw_only=True):
    workload: str
    replicas: int


class RolloutSpec(Spec, frozen=True, kw_only=True):
    """A Deployment, StatefulSet or DaemonSet replaces its pods according to its update strategy."""

    workload: str
    #: A merge patch of the workload's manifest; by default the template is restarted (`kubectl rollout restart`).
    patch: dict[str, Any] | None = None


class PatchSpec(Spec, frozen=True, kw_only=True):
    """The Jobs of a workload that exist are changed, as by `kubectl patch`."""

    workload: str
    #: A merge patch of the manifest's spec.
    spec: dict[str, Any]


class ResizeSpec(Spec, frozen=True, kw_only=True):
    """A group is set to a number of nodes at once."""

    group: str
    count: int


class RebalanceSpec(Spec, frozen=True, kw_only=True):
    """Moves towards a goal, or by a policy."""

    goal: str = ""
    #: Of the goal: disruption, cost, time.
    weights: dict[str, float] = msgspec.field(default_factory=dict)
    #: A DeschedulerPolicy, or the file with it.
    policy: str | dict[str, Any] | None = None
    max_moves: int | None = None
    #: In one step: in all, and of one owner.
    at_once: int = 10
    at_once_per_owner: int = 1
    #: Pods that would begin more work anew stay.
    max_lost_work: Span | None = None


class EventSpec(When, frozen=True, kw_only=True):
    """Exactly one of these happens."""

    fail: FailSpec | None = None
    outage: OutageSpec | None = None
    drain: DrainSpec | None = None
    upgrade: UpgradeSpec | None = None
    reclaim: ReclaimSpec | None = None
    taint: TaintEventSpec | None = None
    price: PriceSpec | None = None
    scale: ScaleSpec | None = None
    rollout: RolloutSpec | None = None
    patch: PatchSpec | None = None
    resize: ResizeSpec | None = None
    rebalance: RebalanceSpec | None = None


#: The types of events.
EVENTS = tuple(name for name in EventSpec.__struct_fields__ if name not in When.__struct_fields__)


# -- models and output ------------------------------------------------------------------------------------------------


class ModelsSpec(Spec, frozen=True, kw_only=True):
    """The behavior of the scheduler's environment; 0 or false disables a model."""

    #: From the binding until a pod runs.
    startup: Distribution = _read(Distribution, "2s")
    #: How long an evicted pod takes to terminate; at most its own grace period.
    termination: Distribution = _read(Distribution, "5s")
    #: Whether workloads replace lost pods, and after which time.
    controllers: bool = True
    controller_delay: Span = _read(Span, 0.1)
    #: Until a node failure is detected, and from then until its pods are evicted.
    failure_detection: Span = _read(Span, 50)
    failure_eviction: Span = _read(Span, 300)
    autoscaler: bool = True
    #: Interval of the autoscaler.
    autoscaler_interval: Span = _read(Span, 10)
    #: Until a claim is bound for which the scheduler has selected a volume or a node.
    volumes: Span = _read(Span, 1)
    #: For each direction of a request of the scheduler, and until its watches deliver changes.
    latency: Distribution = _read(Distribution, 0)


class OutputSpec(Spec, frozen=True, kw_only=True):
    #: Interval of the time series; by default as short as a chart needs.
    every: Span | None = None
    #: Whether there is a row per pod.
    decisions: bool = True


class Scenario(Spec, frozen=True, kw_only=True):
    name: str = "scenario"
    #: For readers of the report.
    description: str = ""
    seed: int = 1
    #: The time at the start.
    start: str = "2026-01-01T00:00:00Z"
    #: When it ends; by default when nothing happens any more.
    duration: Span | None = None
    #: Of prices.
    currency: str = ""
    cluster: ClusterSpec = ClusterSpec()
    scheduler: SchedulerSpec = SchedulerSpec()
    workloads: tuple[WorkloadSpec, ...] = ()
    #: Manifests of HorizontalPodAutoscalers.
    autoscalers: tuple[dict[str, Any], ...] = ()
    events: tuple[EventSpec, ...] = ()
    models: ModelsSpec = msgspec.field(default_factory=ModelsSpec)
    output: OutputSpec = msgspec.field(default_factory=OutputSpec)


def times_of(when: When, random: Random, duration: float | None, start: float) -> Iterator[float]:
    """Seconds since the `start` of the simulation, up to its `duration`."""
    if when.at.listed:
        yield from when.at
        return
    gaps = _gaps(when, random)
    if gaps is None:
        yield when.at[0]
        return
    ends = [end for end in (when.until, duration) if end is not None]
    last = min(ends) if ends else None
    at = when.at[0]
    for number in count():
        if number == when.count:
            return
        # Poisson arrivals start with a gap, regular ones immediately.
        if number or when.poisson is not None:
            at = round(_after(when, at, next(gaps), start), 6)
        if last is not None and at > last:
            return
        yield at


def _after(when: When, at: float, gap: float, start: float) -> float:
    """A time after a gap, which is longer in hours with a low weight."""
    if not when.hours and not when.weekdays:
        return at + gap
    while True:
        now = start + at
        left = _HOUR - now % _HOUR
        # The first day of the epoch was a Thursday.
        weight = _weight(when.hours, now // _HOUR) * _weight(when.weekdays, now // (24 * _HOUR) + 3)
        if gap < left * weight:
            return at + gap / weight
        gap, at = gap - left * weight, at + left


def _weight(weights: tuple[float, ...], index: float) -> float:
    return weights[int(index) % len(weights)] * len(weights) / sum(weights) if weights else 1.0


def _gaps(when: When, random: Random) -> Iterator[float] | None:
    """Seconds between two times; None if there is only one."""
    if when.every is not None:
        every = when.every
        return (every.draw(random) for _ in repeat(None))
    if when.rate is not None:
        return repeat(1.0 / when.rate)
    if when.poisson is not None:
        poisson = float(when.poisson)
        return (-log(1.0 - random.random()) / poisson for _ in repeat(None))
    return None


def expected_count(when: When, duration: float | None) -> int | None:
    """The approximate number of times; None if unknown."""
    if when.at.listed:
        return len(when.at)
    rate = when.rate or when.poisson or (1.0 / when.every.mean if when.every is not None else None)
    if rate is None:
        return 1
    ends = [end for end in (when.until, duration) if end is not None]
    by_time = round((min(ends) - when.at[0]) * rate) + 1 if ends else None
    found = [number for number in (when.count, by_time) if number is not None]
    return max(0, min(found)) if found else None


_SPAN: dict[str, Any] = {"type": ["string", "number"], "description": "a time span: 90s, 5m, 1h30m, 7d, or seconds"}
_AMOUNT: dict[str, Any] = {"type": ["string", "number"], "description": "300m, 2Gi, or a share of the request: 60%"}
_COURSE: dict[str, Any] = {
    "anyOf": [
        _AMOUNT,
        {"type": "array", "items": {"type": "array", "items": _AMOUNT, "minItems": 2, "maxItems": 2}, "minItems": 1},
        {
            "type": "object",
            "properties": {"low": _AMOUNT, "high": _AMOUNT, "peak": _SPAN},
            "required": ["low", "high", "peak"],
            "additionalProperties": False,
        },
    ]
}
_SCHEMAS: dict[Any, dict[str, Any]] = {
    Usage: {
        "anyOf": [
            _AMOUNT,
            {
                "type": "object",
                "properties": {"each": _COURSE, "total": _COURSE, "every": _SPAN},
                "additionalProperties": False,
            },
        ]
    },
    Span: _SPAN,
    Rate: {"type": "string", "pattern": "^[0-9.]+/", "description": "a rate: 2/s, 100/h, 5/10m"},
    Times: {"anyOf": [_SPAN, {"type": "array", "items": _SPAN}]},
    Distribution: {
        "anyOf": [
            _SPAN,
            {
                "type": "object",
                "properties": {
                    "exponential": _SPAN,
                    "uniform": {"type": "array", "items": _SPAN, "minItems": 2, "maxItems": 2},
                    "lognormal": {"type": "object", "properties": {"median": _SPAN, "p95": _SPAN}},
                    "pareto": {"type": "object", "properties": {"least": _SPAN, "shape": {"type": "number"}}},
                    "choice": {"type": "array", "items": _SPAN, "minItems": 1},
                    "weights": {"type": "array", "items": {"type": "number", "minimum": 0}},
                },
                "additionalProperties": False,
            },
        ]
    },
}


def scenario_schema() -> dict[str, Any]:
    (schema,), parts = msgspec.json.schema_components(
        [Scenario], schema_hook=_SCHEMAS.__getitem__, ref_template="#/$defs/{name}"
    )
    found = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "$defs": parts}
    decoded: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(_without_defaults(found)))
    return decoded


def _without_defaults(value: Any) -> Any:
    """Without defaults that cannot be written as JSON."""
    if isinstance(value, dict):
        return {key: _without_defaults(item) for key, item in value.items() if key != "default" or _plain(item)}
    if isinstance(value, list | tuple):
        return [_without_defaults(item) for item in value]
    return value


def _plain(value: object) -> bool:
    return value is None or isinstance(value, bool | int | float | str)
