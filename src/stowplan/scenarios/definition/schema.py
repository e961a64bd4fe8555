"""What a scenario may say: one frozen struct for each part; `docs/simulate.md` explains every field.

Structs are what the YAML is decoded to (`load`), what the JSON schema for editors is made of, and what a simulation is
built from. They can be pickled, so that simulations run in other processes.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from stowplan.scenarios.definition.amounts import Distribution, Rate, Span, Times

ZONE = "topology.kubernetes.io/zone"


def _read(type_: type[Distribution | Span | Times], value: object) -> Any:
    """A default built per instance, as JSON schemas cannot show amounts."""
    return msgspec.field(default_factory=partial(type_.read, value))


class Spec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """A part of a scenario; a field that it does not have is an error."""


# -- the cluster ------------------------------------------------------------------------------------------------------


class TaintSpec(Spec, frozen=True, kw_only=True):
    key: str
    value: str = ""
    effect: str = "NoSchedule"


class AutoscaleSpec(Spec, frozen=True, kw_only=True):
    """The limits within which the autoscaler model resizes a group."""

    min: int = 0
    max: int
    #: From the decision until the node is there.
    boot: Distribution = _read(Distribution, "90s")
    #: A node without pods (DaemonSets' aside) goes after this.
    idle: Span = _read(Span, 600)
    #: A node whose larger share of cpu and memory is below it is emptied after that, if its pods fit elsewhere.
    utilization: float = 0.5


class GroupSpec(Spec, frozen=True, kw_only=True):
    """Nodes that are alike."""

    name: str
    count: int = 0
    #: As a Node's status.allocatable has it.
    capacity: dict[str, int | float | str]
    #: Nodes go to the zones in turn.
    zones: tuple[str, ...] = ()
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    taints: tuple[TaintSpec, ...] = ()
    #: Of a node, for an hour.
    price: float = 0.0
    autoscale: AutoscaleSpec | None = None


class ClusterSpec(Spec, frozen=True, kw_only=True):
    """The cluster at the beginning: everything that is named here together."""

    #: Manifests and dumps, relative to the scenario's folder.
    files: tuple[str, ...] = ()
    #: A live cluster, which is read once.
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


# -- what happens -----------------------------------------------------------------------------------------------------


class When(Spec, frozen=True, kw_only=True):
    """The times at which something happens: once, at several times, at a rate, or by chance."""

    at: Times = _read(Times, 0)
    #: Between two times.
    every: Distribution | None = None
    rate: Rate | None = None
    #: The rate of a Poisson process.
    poisson: Rate | None = None
    #: How many times.
    count: int | None = None
    until: Span | None = None


class WorkloadSpec(When, frozen=True, kw_only=True):
    """Pods that arrive, or workloads that make them."""

    name: str
    #: A Pod, Deployment, ReplicaSet, StatefulSet, DaemonSet or Job, as a manifest has it; `file`: the same in a file.
    manifest: dict[str, Any] | None = None
    file: str | None = None
    trace: dict[str, Any] | None = None
    #: How many arrive at each time.
    each: int = 1
    #: How long a pod runs once it has started; without it, for ever.
    lifetime: Distribution | None = None
    #: A trace's times are divided by it.
    speed: float = 1.0
    #: The profile that its pods ask for, in place of what they say.
    scheduler_name: str = ""


class NodesSpec(Spec, frozen=True, kw_only=True):
    """Some nodes: those that meet all that is said; of these, `count` that chance chooses."""

    nodes: tuple[str, ...] = ()
    group: str = ""
    zone: str = ""
    count: int | None = None


class FailSpec(NodesSpec, frozen=True, kw_only=True):
    """Nodes stop without notice, and come back after a time, or never."""

    for_: Distribution | None = msgspec.field(default=None, name="for")


class OutageSpec(Spec, frozen=True, kw_only=True):
    """All nodes of a zone stop, and no new one starts there."""

    zone: str
    for_: Distribution = msgspec.field(name="for")


class DrainSpec(NodesSpec, frozen=True, kw_only=True):
    """Nodes are cordoned and their pods evicted, as budgets allow; afterwards they are removed, or uncordoned."""

    then: str = "uncordon"
    #: Between the last eviction and what comes then.
    for_: Span = msgspec.field(name="for", default_factory=partial(Span.read, 0))


class UpgradeSpec(NodesSpec, frozen=True, kw_only=True):
    """Nodes are drained, and replaced by new ones, so many at a time."""

    at_once: int = 1
    #: Until the new node is there.
    takes: Distribution = _read(Distribution, "5m")


class ReclaimSpec(NodesSpec, frozen=True, kw_only=True):
    """The provider takes nodes back after a notice; their pods are evicted meanwhile."""

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
    """A Deployment, StatefulSet or DaemonSet replaces its pods, as its update strategy says."""

    workload: str
    #: A merge patch of the workload's manifest; without it, the same template anew (`kubectl rollout restart`).
    patch: dict[str, Any] | None = None


class ResizeSpec(Spec, frozen=True, kw_only=True):
    """A group gets so many nodes, at once."""

    group: str
    count: int


class EventSpec(When, frozen=True, kw_only=True):
    """One of these happens."""

    fail: FailSpec | None = None
    outage: OutageSpec | None = None
    drain: DrainSpec | None = None
    upgrade: UpgradeSpec | None = None
    reclaim: ReclaimSpec | None = None
    taint: TaintEventSpec | None = None
    price: PriceSpec | None = None
    scale: ScaleSpec | None = None
    rollout: RolloutSpec | None = None
    resize: ResizeSpec | None = None


#: What an event can be.
EVENTS = tuple(name for name in EventSpec.__struct_fields__ if name not in When.__struct_fields__)


# -- models and output ------------------------------------------------------------------------------------------------


class ModelsSpec(Spec, frozen=True, kw_only=True):
    """How what is around the scheduler behaves; 0 or false switches a model off."""

    #: From the binding until a pod runs.
    startup: Distribution = _read(Distribution, "2s")
    #: What a pod takes to end that is evicted; at most its own grace period.
    termination: Distribution = _read(Distribution, "5s")
    #: Whether workloads make new pods for those that are lost, and how long that takes.
    controllers: bool = True
    controller_delay: Span = _read(Span, 0.1)
    #: Until a failed node is seen to have failed, and until its pods are given up after that.
    failure_detection: Span = _read(Span, 50)
    failure_eviction: Span = _read(Span, 300)
    autoscaler: bool = True
    #: Between two looks of the autoscaler.
    autoscaler_interval: Span = _read(Span, 10)
    #: Until a claim is bound for which the scheduler has named a volume or a node.
    volumes: Span = _read(Span, 1)
    #: Each way of a request of the scheduler's, and until its watches tell.
    latency: Distribution = _read(Distribution, 0)


class OutputSpec(Spec, frozen=True, kw_only=True):
    #: Between two samples of the time series; without it, as many as a picture needs.
    every: Span | None = None
    #: Whether there is a row of each pod.
    decisions: bool = True


class Scenario(Spec, frozen=True, kw_only=True):
    name: str = "scenario"
    seed: int = 1
    #: What time it is at the beginning.
    start: str = "2026-01-01T00:00:00Z"
    #: When it ends; without it, when nothing goes on any more.
    duration: Span | None = None
    cluster: ClusterSpec = ClusterSpec()
    scheduler: SchedulerSpec = SchedulerSpec()
    workloads: tuple[WorkloadSpec, ...] = ()
    events: tuple[EventSpec, ...] = ()
    models: ModelsSpec = msgspec.field(default_factory=ModelsSpec)
    output: OutputSpec = msgspec.field(default_factory=OutputSpec)
