"""Sources of measured data in a simulation: asked at their intervals, and answered with what workloads use.

A source asks what it asks on a cluster, and what it makes of the answers is an object that plugins read. Three kinds of
questions have answers, all from the workloads' `usage` (`nodes.modelled_use`): lists of metrics.k8s.io, a load
watcher's address, and queries of Prometheus for the average and the deviation of the last 15 minutes, of which there is
a sample for each time at which any source has asked.

If no workload says what it uses, nothing is asked: there are no measurements but those of the scenario's files.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from statistics import fmean, pstdev
from typing import Any, NamedTuple, TypeVar

from stowplan.ask.rebalance.policy.measured_use import MeasuredUse, NodeMetrics, PodMetrics
from stowplan.ask.rebalance.policy.node_fit import amounts
from stowplan.kube.api.decode import convert
from stowplan.kube.api.meta import ApiStruct
from stowplan.scheduler.framework.boundary import Ended, Raised, close, resume
from stowplan.scheduler.framework.requests import Create, Update
from stowplan.scheduler.framework.sources import Source, SourceError, answer_of
from stowplan_lab.simulation.nodes.fleet import Fleet
from stowplan_lab.simulation.nodes.modelled_use import ModelledUse
from stowplan_lab.simulation.scenario_errors import ScenarioError
from stowplan_lab.simulation.simulation_context import SimulationContext

T = TypeVar("T", bound=ApiStruct)

_WINDOW_SECONDS = 15 * 60
_QUERY = re.compile(r"(\w+)_over_time\((.+)\[15m\]\)")
_FUNCTIONS: dict[str, Callable[[Sequence[float]], float]] = {"avg": fmean, "stddev": pstdev}
#: Prometheus' series of nodes' load.
_SERIES = {"instance:node_cpu:ratio": "cpu", "instance:node_memory_utilisation:ratio": "memory"}


class Measuring:
    def __init__(self, context: SimulationContext, fleet: Fleet, use: ModelledUse) -> None:
        self._context = context
        self._use = use
        self._client = ModelClient(context, fleet, use)
        self._failed: set[Source] = set()

    def begin(self, sources: Sequence[Source], duration: float | None) -> None:
        """Ask them now, and from now on; raises ScenarioError."""
        if not self._use.is_given:
            for source in sources:
                if self._context.store.find(source.kind, "", source.name) is None:
                    self._context.note(f"{source.name}: nothing is measured, as no workload has usage")
            return
        if sources and duration is None:
            raise ScenarioError("measured load never ends: give the scenario a duration")
        for source in sources:
            self._ask(source)

    def _ask(self, source: Source) -> None:
        asking = answer_of(source, self._client)
        found = resume(asking, None)
        if isinstance(found, Ended):
            known = self._context.store.find(source.kind, "", source.name)
            self._context.time.write((Create if known is None else Update)(obj=found.value))
        elif isinstance(found, Raised):
            why = str(found.cause) if isinstance(found.cause, SourceError) else str(found)
            self._fails(source, f"cannot be read: {why}")
        else:
            close(asking)
            self._fails(source, "awaits something that does not exist in simulated time")
        self._context.later(source.interval, partial(self._ask, source))

    def _fails(self, source: Source, why: str) -> None:
        # Once: later messages may differ in times alone.
        if source not in self._failed:
            self._failed.add(source)
            self._context.note(f"{source.name} {why}")


class _Sample(NamedTuple):
    time: float
    #: Node -> resource -> share of its capacity.
    shares: Mapping[str, Mapping[str, float]]


class ModelClient:
    """A `MeasuringClient`."""

    def __init__(self, context: SimulationContext, fleet: Fleet, use: ModelledUse) -> None:
        self._context = context
        self._fleet = fleet
        self._use = use
        #: Of the last 15 minutes.
        self._samples: deque[_Sample] = deque()

    def wall_clock(self) -> float:
        return self._context.now

    async def list(self, kind: type[T]) -> Sequence[T]:
        if kind is NodeMetrics:
            used = self._use.now().nodes
            found = [{"metadata": {"name": name}, "usage": _usage(of_node)} for name, of_node in used.items()]
        elif kind is PodMetrics:
            found = list(_pod_metrics(self._use.now()))
        else:
            return self._context.store.list(kind)
        return [convert(one, kind) for one in found]

    async def get_json(
        self,
        url: str,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        insecure: bool = False,
    ) -> Any:
        if url.endswith("/watcher"):
            return self._watched()
        asked = _QUERY.fullmatch((query or {}).get("query", "")) if url.endswith("/api/v1/query") else None
        if asked is None or asked[1] not in _FUNCTIONS or asked[2] not in _SERIES:
            raise SourceError(
                f"a simulation has no answer to {' '.join((url, (query or {}).get('query', '')))}".rstrip()
            )
        vector = self._over_time(asked[1], _SERIES[asked[2]])
        result = [{"metric": {"instance": node}, "value": [self._context.now, str(value)]} for node, value in vector]
        return {"status": "success", "data": {"resultType": "vector", "result": result}}

    def _watched(self) -> dict[str, Any]:
        metrics: dict[str, list[dict[str, Any]]] = {}
        for function, operator in (("avg", "AVG"), ("stddev", "STD")):
            for resource, type_ in (("cpu", "CPU"), ("memory", "Memory")):
                for node, share in self._over_time(function, resource):
                    one = {"type": type_, "operator": operator, "value": 100 * share}
                    metrics.setdefault(node, []).append(one)
        end = int(self._context.now)
        return {
            "timestamp": end,
            "window": {"duration": "15m", "start": end - _WINDOW_SECONDS, "end": end},
            "source": "simulation",
            "data": {"NodeMetricsMap": {node: {"metrics": of_node} for node, of_node in metrics.items()}},
        }

    def _over_time(self, function: str, resource: str) -> Iterator[tuple[str, float]]:
        """Each node that has a load now, and what the function makes of its samples."""
        self._take_sample()
        for node in self._samples[-1].shares:
            values = [sample.shares[node][resource] for sample in self._samples if node in sample.shares]
            yield node, _FUNCTIONS[function](values)

    def _take_sample(self) -> None:
        samples, now = self._samples, self._context.now
        if samples and samples[-1].time == now:
            return
        while samples and samples[0].time <= now - _WINDOW_SECONDS:
            samples.popleft()
        shares = {name: self._shares(name, used) for name, used in self._use.now().nodes.items()}
        samples.append(_Sample(now, shares))

    def _shares(self, node: str, used: Mapping[str, int]) -> dict[str, float]:
        capacity = amounts(self._fleet.nodes[node].status.capacity)
        return {name: amount / capacity[name] if capacity.get(name) else 0.0 for name, amount in used.items()}


def _usage(used: Mapping[str, int]) -> dict[str, str]:
    return {"cpu": f"{used['cpu']}m", "memory": f"{used['memory']}"}


def _pod_metrics(use: MeasuredUse) -> Iterable[dict[str, Any]]:
    for key, used in use.pods.items():
        namespace, _, name = key.partition("/")
        yield {"metadata": {"namespace": namespace, "name": name}, "containers": [{"usage": _usage(used)}]}
