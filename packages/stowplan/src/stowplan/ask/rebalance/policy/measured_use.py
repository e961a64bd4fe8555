"""What nodes and pods use, measured: for LowNodeUtilization with `metricsUtilization`.

It is asked for once, when a plan is made: of metrics.k8s.io, or with the policy's Prometheus query, whose samples name
nodes by the label `instance` and are between 0 and 1.

Parity: the descheduler averages several samples of metrics.k8s.io over time.

Upstream: descheduler's pkg/framework/plugins/nodeutilization/usageclients.go, pkg/descheduler/metricscollector.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from stowplan.ask.rebalance.policy.arguments import METRIC_RESOURCE
from stowplan.ask.rebalance.policy.node_fit import amounts
from stowplan.ask.rebalance.policy.policy_file import Policy
from stowplan.kube.api.custom_objects import custom_resource
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.framework.sources import MeasuringClient, SourceError

NodeMetrics = custom_resource("nodes.v1beta1.metrics.k8s.io", namespaced=False)
PodMetrics = custom_resource("pods.v1beta1.metrics.k8s.io")

#: Per resource: cpu in millicores, the rest in units.
Use = dict[str, dict[str, int]]


class MeasuredUse(PlainStruct, frozen=True):
    nodes: Use
    #: By key.
    pods: Use


async def measured_use(policy: Policy, client: MeasuringClient, token: str = "") -> MeasuredUse:
    """What the policy's strategies measure; raises SourceError. `token`: for Prometheus."""
    queries = {one.prometheus.query for one in policy.metrics if one.is_prometheus and one.prometheus is not None}
    if len(queries) > 1:
        raise SourceError(f"{policy.name}: different Prometheus queries in one policy are not supported")
    found = MeasuredUse({}, {})
    if any(not one.is_prometheus for one in policy.metrics):
        nodes, pods = await client.list(NodeMetrics), await client.list(PodMetrics)
        found = use_of([one.content for one in nodes], [one.content for one in pods])
    for query in queries:
        if policy.prometheus is None:
            raise SourceError(f"{policy.name}: metricsProviders has no Prometheus, which metricsUtilization needs")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        url = f"{policy.prometheus.url.rstrip('/')}/api/v1/query"
        answer = await client.get_json(url, query={"query": query}, headers=headers)
        for node, percent in _samples(answer, url):
            found.nodes.setdefault(node, {})[METRIC_RESOURCE] = percent
    return found


def use_of(nodes: Iterable[Mapping[str, Any]], pods: Iterable[Mapping[str, Any]]) -> MeasuredUse:
    """Of NodeMetrics and PodMetrics, as JSON."""
    used: Use = {}
    for pod in pods:
        metadata = pod["metadata"]
        total = used.setdefault(f"{metadata.get('namespace', 'default')}/{metadata['name']}", {})
        for container in pod.get("containers") or ():
            for name, amount in amounts(container.get("usage") or {}).items():
                total[name] = total.get(name, 0) + amount
    return MeasuredUse({one["metadata"]["name"]: amounts(one.get("usage") or {}) for one in nodes}, used)


def _samples(answer: Any, url: str) -> Iterable[tuple[str, int]]:
    try:
        data = answer["data"]
        if data["resultType"] != "vector":
            raise SourceError(f"{url}: want a vector, got a {data['resultType']}; change the query")
        for sample in data["result"]:
            node, value = sample["metric"].get("instance"), float(sample["value"][1])
            if not node:
                raise SourceError(f"{url}: a sample has no label instance, which names its node")
            if not 0 <= value <= 1:
                raise SourceError(f"{url}: node {node}: want a value from 0 to 1, got {value:g}")
            yield node, int(value * 100)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise SourceError(f"{url}: the answer is not Prometheus': {error!r}") from None
