"""Measured use: of metrics.k8s.io, and of Prometheus."""

import asyncio

import pytest

from stowplan.ask.rebalance import read_policy
from stowplan.ask.rebalance.policy.measured_use import NodeMetrics, measured_use
from stowplan.kube.api.decode import convert
from stowplan.scheduler.framework.sources import SourceError

PROMETHEUS = {"source": "Prometheus", "prometheus": {"query": "use"}}
PROVIDER = {"source": "Prometheus", "prometheus": {"url": "http://prometheus/"}}
NODE = {"metadata": {"name": "a"}, "usage": {"cpu": "1500m", "memory": "1Gi"}}
POD = {
    "metadata": {"name": "web", "namespace": "shop"},
    "containers": [{"name": "c", "usage": {"cpu": "100m", "memory": "1Mi"}}, {"name": "d", "usage": {"cpu": "5m"}}],
}


def a_policy(metrics, *providers):
    name = "MetricResource" if metrics["source"] == "Prometheus" else "cpu"
    args = {"thresholds": {name: 10}, "targetThresholds": {name: 50}, "metricsUtilization": metrics}
    plugins = {"balance": {"enabled": ["LowNodeUtilization"]}}
    profile = {"name": "p", "pluginConfig": [{"name": "LowNodeUtilization", "args": args}], "plugins": plugins}
    head = {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy"}
    return read_policy({**head, "profiles": [profile], "metricsProviders": list(providers)})


class Client:
    def __init__(self, answer=None):
        self.answer = answer
        self.asked = []

    async def get_json(self, url, *, query=None, headers=None, insecure=False):
        self.asked.append((url, query, headers))
        return self.answer

    async def list(self, kind):
        return [convert(NODE if kind is NodeMetrics else POD, kind)]


def measured(policy, client, token=""):
    return asyncio.run(measured_use(policy, client, token))


def samples(*values, kind="vector"):
    result = [{"metric": {"instance": node} if node else {}, "value": [0, value]} for node, value in values]
    return {"status": "success", "data": {"resultType": kind, "result": result}}


def test_metrics_of_the_cluster():
    found = measured(a_policy({"source": "KubernetesMetrics"}), Client())
    assert found.nodes == {"a": {"cpu": 1500, "memory": 1 << 30}}
    assert found.pods == {"shop/web": {"cpu": 105, "memory": 1 << 20}}


def test_a_query():
    client = Client(samples(("a", "0.914"), ("b", "0")))
    found = measured(a_policy(PROMETHEUS, PROVIDER), client, "secret")
    assert found.nodes == {"a": {"MetricResource": 91}, "b": {"MetricResource": 0}}
    headers = {"Authorization": "Bearer secret"}
    assert client.asked == [("http://prometheus/api/v1/query", {"query": "use"}, headers)]


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (samples(("a", "1.2")), "node a: want a value from 0 to 1, got 1.2"),
        (samples((None, "1")), "a sample has no label instance"),
        (samples(kind="matrix"), "want a vector, got a matrix"),
        ({"error": "no"}, "the answer is not Prometheus'"),
        ([], "the answer is not Prometheus'"),
    ],
)
def test_other_answers(answer, problem):
    with pytest.raises(SourceError, match=problem):
        measured(a_policy(PROMETHEUS, PROVIDER), Client(answer))


def test_without_a_provider():
    with pytest.raises(SourceError, match="metricsProviders has no Prometheus"):
        measured(a_policy(PROMETHEUS), Client())
