"""Measured load of nodes, for the plugins of Trimaran and for Peaks.

Plugins do no I/O: what a source answered last (`load_sources`) is an object in the cluster, named after it. A source
that was never reached has none, and the scores are 0.

Upstream: pkg/trimaran/collector.go, resourcestats.go in scheduler-plugins.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from stowplan.plugins import (
    Explanation,
    Handle,
    Inspection,
    Mask,
    Nodes,
    ObjectDependency,
    Plugin,
    PodInfo,
    ScorePlugin,
    TemplateSigned,
)
from stowplan.plugins.arguments import BOOL, STRING, Args, Field, Pointer, documented, named_string, not_omitted, struct
from stowplan.plugins.objects import Container, milli_value, parse_quantity, whole_value
from stowplan_scheduler_plugins.load_sources import (
    CPU,
    KUBERNETES,
    MEMORY,
    PROMETHEUS,
    SIGNALFX,
    Load,
    LoadSource,
    LoadWatcher,
    Provider,
)

Floats = npt.NDArray[np.float64]

# --- arguments


class MetricProvider(msgspec.Struct, frozen=True, rename="camel"):
    type: str = ""
    address: str = ""
    token: str = ""
    insecure_skip_verify: bool | None = None


_PROVIDER = struct(
    "MetricProviderSpec",
    type=documented(
        named_string("v1.MetricProviderType"), "Where load is measured.", choices=(KUBERNETES, PROMETHEUS, SIGNALFX)
    ),
    address=documented(not_omitted(Pointer(STRING)), "The provider's address."),
    token=documented(not_omitted(Pointer(STRING)), "Its token."),
    insecureSkipVerify=documented(not_omitted(Pointer(BOOL)), "Do not verify its certificate."),
)
#: Fields of all arguments with a source of measured load.
SOURCE_FIELDS: dict[str, Field] = {
    "watcherAddress": Field(
        Pointer(STRING), not_omitted=True, via="TrimaranSpec", text="URL of a load watcher; without it, metricProvider."
    ),
    "metricProvider": Field(
        _PROVIDER, not_omitted=True, via="TrimaranSpec", text="Where load is measured, if not by a load watcher."
    ),
}


class LoadArgs(Args, frozen=True):
    """Arguments with a source of measured load."""

    watcher_address: str = ""
    metric_provider: MetricProvider = MetricProvider()

    @property
    def source(self) -> LoadSource:
        if self.watcher_address:
            return LoadWatcher(self.watcher_address)
        provider = self.metric_provider
        return Provider(provider.type, provider.address, provider.token, bool(provider.insecure_skip_verify))

    def completed_provider(self) -> MetricProvider:
        provider, skips = self.metric_provider, self.metric_provider.insecure_skip_verify
        return msgspec.structs.replace(
            provider,
            type=provider.type or ("" if self.watcher_address else KUBERNETES),
            insecure_skip_verify=provider.type == PROMETHEUS if skips is None else skips,
        )

    def validate_at_build(self) -> Iterator[str]:
        yield from provider_errors(self.watcher_address, self.metric_provider.type)


def provider_errors(watcher_address: str, provider_type: str) -> Iterator[str]:
    if not watcher_address and provider_type not in (KUBERNETES, PROMETHEUS, SIGNALFX):
        yield f"invalid MetricProvider.Type, got {provider_type}"


# --- what was measured


class Metric(NamedTuple):
    type: str
    operator: str
    value: float


#: From the metrics of a node: a value, and whether there is one.
Choice = Callable[[Sequence[Metric]], tuple[float, bool]]


class Measurements:
    """Per-node columns of what a source measured last."""

    def __init__(self, plugin: Plugin, source: LoadSource) -> None:
        self._objects = plugin.handle.cluster.objects
        self.source = source
        self._columns: dict[Choice, tuple[object, int, Floats, Mask]] = {}

    @property
    def dependency(self) -> ObjectDependency:
        return ObjectDependency.named(Load, self.source.name)

    def window_end(self) -> float:
        """The end of the measured interval, in seconds since the epoch."""
        body = self._body(self._objects.get(Load, self.source.name))
        return float((body.get("window") or {}).get("end") or 0)

    def column(self, nodes: Nodes, choose: Choice) -> tuple[Floats, Mask]:
        """The chosen value per node, and where there is one."""
        found, table = self._objects.get(Load, self.source.name), nodes.table
        kept = self._columns.get(choose)
        if kept is None or kept[0] is not found or kept[1] != table.generation:
            values, known = np.zeros(table.n), np.zeros(table.n, np.bool_)
            of_nodes = ((self._body(found).get("data") or {}).get("NodeMetricsMap")) or {}
            for name, of_node in of_nodes.items():
                row = table.row_of.get(name)
                if row is not None:
                    values[row], known[row] = choose(_metrics(of_node))
            kept = self._columns[choose] = (found, table.generation, values, known)
        return nodes.take(kept[2]), nodes.take(kept[3])

    @staticmethod
    def _body(found: Any) -> Mapping[str, Any]:
        return {} if found is None else found.content.get("watched") or {}


def _metrics(of_node: Mapping[str, Any]) -> list[Metric]:
    listed = of_node.get("metrics") or ()
    return [Metric(one.get("type", ""), one.get("operator", ""), float(one.get("value", 0))) for one in listed]


def any_metric(metrics: Sequence[Metric]) -> tuple[float, bool]:
    return 0.0, bool(metrics)


@cache
def average_of(type_: str) -> Choice:
    """AVG; without it the latest value. There is one if any metric of the type exists."""

    def choose(metrics: Sequence[Metric]) -> tuple[float, bool]:
        average, exact, known = 0.0, False, False
        for metric in metrics:
            if metric.type != type_:
                continue
            known = True
            if metric.operator == "AVG":
                average, exact = metric.value, True
            elif metric.operator in ("", "Latest") and not exact:
                average = metric.value
        return average, known

    return choose


@cache
def deviation_of(type_: str) -> Choice:
    def choose(metrics: Sequence[Metric]) -> tuple[float, bool]:
        found = [metric.value for metric in metrics if metric.type == type_ and metric.operator == "STD"]
        return (found[-1], True) if found else (0.0, False)

    return choose


# --- load and requests of a resource


class ResourceStats(NamedTuple):
    """Per node, in milli-CPU or MiB; `request` is that of the pod."""

    capacity: Floats
    used: Floats
    deviation: Floats
    request: float
    #: Where the resource was measured.
    known: Mask

    def within_capacity(self) -> "ResourceStats":
        used, deviation = (np.clip(column, 0.0, np.maximum(self.capacity, 0.0)) for column in self[1:3])
        return self._replace(used=used, deviation=deviation, request=max(self.request, 0))

    def mean_and_deviation(self) -> tuple[Floats, Floats]:
        """As shares of the capacity, within 0 and 1; 0 without capacity."""
        some = self.capacity > 0
        divisor = np.where(some, self.capacity, 1.0)
        mean = np.where(some, (self.used + self.request) / divisor, 0.0)
        deviation = np.where(some, self.deviation / divisor, 0.0)
        return np.clip(mean, 0.0, 1.0), np.clip(deviation, 0.0, 1.0)


def resource_stats(measurements: Measurements, nodes: Nodes, type_: str, request: float) -> ResourceStats:
    """Stats of a resource; the capacity is what is allocatable."""
    average, known = measurements.column(nodes, average_of(type_))
    deviation, _ = measurements.column(nodes, deviation_of(type_))
    allocatable = nodes.allocatable(nodes.table.resources["cpu" if type_ == CPU else "memory"])
    capacity = allocatable.astype(np.float64)
    if type_ == MEMORY:
        capacity = capacity * (1.0 / 1024.0 / 1024.0)
        request = request * (1.0 / 1024.0 / 1024.0)
    return ResourceStats(capacity, average * capacity / 100, deviation * capacity / 100, request, known)


def pod_amounts(pod: PodInfo, kind: str) -> tuple[int, int]:
    """Requests or limits: milli-CPU, and bytes of memory.

    Parity: every init container counts as one that ends before the others start; overhead is added to limits as well.
    """
    template = pod.shape.template
    known: tuple[int, int] | None = template.memo(("load", kind), None)
    if known is None:
        known = template.remember(("load", kind), None, (_amount(pod, kind, "cpu"), _amount(pod, kind, "memory")))
    return known


def _amount(pod: PodInfo, kind: str, resource: str) -> int:
    unit = milli_value if resource == "cpu" else whole_value

    def total(containers: Iterable[Container]) -> Iterator[int]:
        for container in containers:
            yield unit(parse_quantity(getattr(container.resources, kind).get(resource, 0)))

    spec = pod.pod.spec
    peak = max((sum(total(spec.containers)), *total(spec.init_containers)))
    return peak + unit(parse_quantity(spec.overhead.get(resource, 0)))


def capacity_of_cpu(nodes: Nodes) -> Floats:
    """Milli-CPU of nodes, including what is not allocatable."""
    table = nodes.table

    def column() -> Floats:
        amounts = [0 if node is None else node.status.capacity.get("cpu", 0) for node in table.nodes]
        return np.array([milli_value(parse_quantity(amount)) for amount in amounts], np.float64)

    return nodes.take(table.memo("cpu capacity", column))


def cpu_load_with(percent: Floats, capacity: Floats, *more: Floats | float) -> Floats:
    """The load of nodes' CPU with this many milli-CPU more, in percent; 0 without capacity."""
    # In this order: floats.
    used = sum(more, percent / 100 * capacity)
    return np.where(capacity > 0, 100 * used / np.where(capacity > 0, capacity, 1.0), 0.0)


class LoadPlugin(ScorePlugin, TemplateSigned):
    """Scores by measured load, and by what it declares to read besides; its arguments have the `source`."""

    reads_kinds = (Load,)

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._measurements = Measurements(self, args.source)

    def sources(self) -> Collection[LoadSource]:
        return (self.args.source,)

    def reads_objects(self, pod: PodInfo) -> Collection[ObjectDependency]:
        return (self._measurements.dependency,)

    def explanation(self, inspection: Inspection) -> Explanation:
        from stowplan_scheduler_plugins.load_explanation import LoadExplanation

        return LoadExplanation(inspection, self._measurements)
