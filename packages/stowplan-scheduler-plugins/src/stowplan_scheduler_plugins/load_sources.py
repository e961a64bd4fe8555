"""Where load is measured: a load watcher, or what one would ask by itself.

The content of a measurement is a load watcher's answer: metrics by node, with a type (CPU, Memory), an operator (AVG,
STD, Latest, or none) and a value in percent. The library that upstream compiles in asks a provider once a minute for
the last 15 minutes; only what plugins read of it is asked for here.

Parity: Prometheus' rules name a node by the label `instance`; names of hosts in SignalFx end before their first dot.

Upstream: paypal/load-watcher, pkg/watcher.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isfinite
from typing import Any

import msgspec

from stowplan.controllers import MeasuringClient, Source, SourceError
from stowplan.plugins import CustomObject, custom_resource
from stowplan.plugins.objects import Node, milli_value, parse_quantity, whole_value

Load = custom_resource("nodeloads.v1.load.stowplan.io", namespaced=False)
NodeMetrics = custom_resource("nodes.v1beta1.metrics.k8s.io", namespaced=False)

Kinds = Sequence[type[Node] | type[CustomObject]]

CPU, MEMORY = "CPU", "Memory"
KUBERNETES, PROMETHEUS, SIGNALFX = "KubernetesMetricsServer", "Prometheus", "SignalFx"
WINDOW_SECONDS = 15 * 60


class _Metric(msgspec.Struct):
    type: str = ""
    operator: str = ""
    value: float = 0.0


class _NodeLoad(msgspec.Struct):
    metrics: list[_Metric] | None = None


class _Window(msgspec.Struct, frozen=True):
    end: float = 0


class _Data(msgspec.Struct):
    of_nodes: dict[str, _NodeLoad] | None = msgspec.field(name="NodeMetricsMap", default=None)


class _Watched(msgspec.Struct):
    """What is read of a load watcher's answer."""

    data: _Data
    window: _Window = _Window()


class LoadSource(Source, frozen=True):
    @property
    def kind(self) -> type[CustomObject]:
        return Load

    async def measure(self, client: MeasuringClient) -> Mapping[str, Any]:
        return content_of(await self.watched(client))

    async def watched(self, client: MeasuringClient) -> Mapping[str, Any]:
        """A load watcher's answer."""
        raise NotImplementedError


def content_of(watched: Mapping[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "load.stowplan.io/v1", "kind": "NodeLoad", "watched": dict(watched)}


def measured(source: str, watched: Mapping[str, Any]) -> dict[str, Any]:
    """What a source answered, as an object for the cluster; a load watcher's source is its address."""
    return {**content_of(watched), "metadata": {"name": source}}


class LoadWatcher(LoadSource, frozen=True):
    address: str

    @property
    def name(self) -> str:
        return self.address

    async def watched(self, client: MeasuringClient) -> Mapping[str, Any]:
        answer = await client.get_json(f"{self.address}/watcher")
        try:
            msgspec.convert(answer, _Watched)
        except msgspec.ValidationError as error:
            raise SourceError(f"the answer is not a load watcher's: {error}") from None
        return {key: answer[key] for key in ("timestamp", "window", "source", "data") if key in answer}


class Provider(LoadSource, frozen=True):
    """What a load watcher asks."""

    type: str
    address: str = ""
    token: str = ""
    insecure: bool = False

    @property
    def name(self) -> str:
        return f"{self.type} {self.address}".rstrip()

    @property
    def interval(self) -> float:
        return 60.0

    @property
    def lists(self) -> Kinds:
        return (Node, NodeMetrics) if self.type == KUBERNETES else ()

    async def watched(self, client: MeasuringClient) -> Mapping[str, Any]:
        end = int(client.wall_clock())
        asked = {KUBERNETES: self._metrics_server, PROMETHEUS: self._prometheus, SIGNALFX: self._signalfx}[self.type]
        found: dict[str, list[dict[str, Any]]] = {}
        for node, type_, operator, value in await asked(client, end):
            if isfinite(value):
                found.setdefault(node, []).append({"type": type_, "operator": operator, "value": value})
        return {
            "timestamp": end,
            "window": {"duration": "15m", "start": end - WINDOW_SECONDS, "end": end},
            "source": self.type,
            "data": {"NodeMetricsMap": {node: {"metrics": metrics} for node, metrics in found.items()}},
        }

    async def _metrics_server(self, client: MeasuringClient, end: int) -> "Iterable[Sample]":
        capacities = {node.metadata.name: node.status.capacity for node in await client.list(Node)}
        return _shares_used(await client.list(NodeMetrics), capacities)

    async def _prometheus(self, client: MeasuringClient, end: int) -> "Iterable[Sample]":
        address, headers = self.address or "http://prometheus-k8s:9090", {}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        samples: list[Sample] = []
        for function, operator in (("avg_over_time", "AVG"), ("stddev_over_time", "STD")):
            for series, type_ in (
                ("instance:node_cpu:ratio", CPU),
                ("instance:node_memory_utilisation:ratio", MEMORY),
            ):
                answer = await client.get_json(
                    f"{address.rstrip('/')}/api/v1/query",
                    query={"query": f"{function}({series}[15m])", "time": str(end)},
                    headers=headers,
                    insecure=self.insecure,
                )
                samples += ((node, type_, operator, 100 * ratio) for node, ratio in _vector(answer))
        return samples

    async def _signalfx(self, client: MeasuringClient, end: int) -> "Iterable[Sample]":
        address = (self.address or "https://api.signalfx.com").rstrip("/")
        hosts = f"host:*{os.environ.get('SIGNALFX_HOST_NAME_SUFFIX', '')}"
        where = f"{hosts} AND cluster:{os.environ.get('SIGNALFX_CLUSTER_NAME', '')} AND "
        samples: list[Sample] = []
        for metric, type_ in (("cpu.utilization", CPU), ("memory.utilization", MEMORY)):
            query = {"query": f'{where}sf_metric:"{metric}"'}
            window = {"startMs": f"{(end - WINDOW_SECONDS) * 1000}", "endMs": f"{end * 1000}", "resolution": "60000"}
            headers = {"X-SF-Token": self.token}
            values = await client.get_json(
                f"{address}/v1/timeserieswindow", query=query | window, headers=headers, insecure=self.insecure
            )
            series = await client.get_json(
                f"{address}/v2/metrictimeseries",
                query=query | {"limit": "10000"},
                headers=headers,
                insecure=self.insecure,
            )
            samples += ((node, type_, "AVG", mean) for node, mean in _means(values, series))
        return samples


#: Node, type, operator, percent.
Sample = tuple[str, str, str, float]


def _shares_used(used: Iterable[CustomObject], capacities: Mapping[str, Mapping[str, Any]]) -> Iterator[Sample]:
    """Parity: of the capacity, which may be more than what is allocatable."""
    for one in used:
        capacity, usage = capacities.get(one.metadata.name, {}), one.content.get("usage") or {}
        for type_, resource, amount in ((CPU, "cpu", milli_value), (MEMORY, "memory", whole_value)):
            if (whole := amount(parse_quantity(capacity.get(resource, 0)))) > 0:
                share = 100 * amount(parse_quantity(usage.get(resource, 0))) / whole
                yield one.metadata.name, type_, "Latest", share


class _PrometheusSample(msgspec.Struct):
    metric: dict[str, str]
    value: tuple[float, str]


class _PrometheusData(msgspec.Struct):
    result: list[_PrometheusSample]


class _PrometheusAnswer(msgspec.Struct):
    data: _PrometheusData


def _vector(answer: Any) -> Iterator[tuple[str, float]]:
    try:
        found = msgspec.convert(answer, _PrometheusAnswer).data.result
        yield from [(sample.metric.get("instance", ""), float(sample.value[1])) for sample in found]
    except (msgspec.ValidationError, ValueError) as error:
        raise SourceError(f"the answer is not a vector of Prometheus: {error}") from None


class _Values(msgspec.Struct):
    data: dict[str, list[tuple[float, float]]]


class _TimeSeries(msgspec.Struct):
    id: str
    dimensions: dict[str, str | None]


class _SeriesFound(msgspec.Struct):
    results: list[_TimeSeries]


def _means(values: Any, series: Any) -> Iterator[tuple[str, float]]:
    try:
        hosts = {one.id: one.dimensions.get("host") for one in msgspec.convert(series, _SeriesFound).results}
        data = msgspec.convert(values, _Values).data
    except msgspec.ValidationError as error:
        raise SourceError(f"the answer is not SignalFx's: {error}") from None
    for key, points in data.items():
        host = hosts.get(key)
        if host and points:
            yield host.partition(".")[0], sum(value for _, value in points) / len(points)
