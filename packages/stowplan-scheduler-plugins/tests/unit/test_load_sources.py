"""What each source is asked, and what becomes of its answers."""

import asyncio

import pytest

from stowplan.controllers import SourceError, convert
from stowplan.plugins.objects import Node
from stowplan_scheduler_plugins.load_sources import KUBERNETES, PROMETHEUS, SIGNALFX, LoadWatcher, NodeMetrics, Provider

END = 1_800_000_000


class Client:
    """Answers by the beginning of the URL, or by kind; remembers the questions and the kinds."""

    def __init__(self, *answers, objects=()):
        self.answers, self.objects, self.asked, self.listed = list(answers), objects, [], set()

    def wall_clock(self):
        return END + 0.5

    async def get_json(self, url, *, query=None, headers=None, insecure=False):
        self.asked.append((url, dict(query or {}), dict(headers or {}), insecure))
        return self.answers.pop(0)

    async def list(self, kind):
        self.listed.add(kind)
        return [one for one in self.objects if isinstance(one, kind)]


def measured(source, client):
    found = asyncio.run(source.measure(client))["watched"]
    assert client.listed == set(source.lists), "as roles are printed"
    return found


def metrics(source, client):
    of_nodes = measured(source, client)["data"]["NodeMetricsMap"]
    return {
        node: [(one["type"], one["operator"], round(one["value"], 6)) for one in found["metrics"]]
        for node, found in of_nodes.items()
    }


WATCHED = {
    "timestamp": 7,
    "window": {"duration": "15m", "start": 1, "end": 2},
    "source": "x",
    "data": {"NodeMetricsMap": {"n1": {"metrics": [{"type": "CPU", "operator": "AVG", "value": 71}]}}},
}


def test_a_load_watcher_is_asked_for_its_latest_answer():
    client, source = Client(WATCHED), LoadWatcher("http://watcher")
    assert measured(source, client) == WATCHED
    assert client.asked == [("http://watcher/watcher", {}, {}, False)]
    assert (source.name, source.interval, source.timeout) == ("http://watcher", 30, 55)


@pytest.mark.parametrize(
    ("answer", "what"),
    [
        ([], "Expected `object`, got `array`"),
        ({}, "missing required field `data`"),
        (
            {"data": {"NodeMetricsMap": {"n1": {"metrics": [{"value": "71"}]}}}},
            "Expected `float`, got `str`",
        ),
        ({"data": {"NodeMetricsMap": {"n1": {"metrics": 5}}}}, "Expected `array | null`, got `int`"),
    ],
)
def test_a_wrong_answer_says_where(answer, what):
    with pytest.raises(SourceError, match=f"the answer is not a load watcher's: .*{what.replace('|', '.')}"):
        measured(LoadWatcher("http://watcher"), Client(answer))


def test_the_metrics_server_tells_usage_of_capacity():
    def used(name, cpu, memory):
        return convert({"metadata": {"name": name}, "usage": {"cpu": cpu, "memory": memory}}, NodeMetrics)

    status = {"capacity": {"cpu": "4", "memory": "8Gi"}, "allocatable": {"cpu": "2", "memory": "4Gi"}}
    node = convert({"metadata": {"name": "n1"}, "status": status}, Node)
    client = Client(objects=[node, used("n1", "1", "2Gi"), used("gone", "1", "1Gi")])
    source = Provider(KUBERNETES)
    assert metrics(source, client) == {"n1": [("CPU", "Latest", 25), ("Memory", "Latest", 25)]}
    assert measured(source, client)["window"] == {"duration": "15m", "start": END - 900, "end": END}
    assert (source.name, source.interval) == ("KubernetesMetricsServer", 60)


def vector(**ratios):
    result = [{"metric": {"instance": name}, "value": [END, ratio]} for name, ratio in ratios.items()]
    return {"status": "success", "data": {"resultType": "vector", "result": result}}


def test_prometheus_is_asked_for_averages_and_deviations():
    client = Client(vector(n1="0.5", n2="NaN"), vector(n1="0.25"), vector(n1="0.01"), vector())
    source = Provider(PROMETHEUS, "https://prom/", "secret", insecure=True)
    assert metrics(source, client) == {"n1": [("CPU", "AVG", 50), ("Memory", "AVG", 25), ("CPU", "STD", 1)]}
    assert [query["query"] for _, query, _, _ in client.asked] == [
        "avg_over_time(instance:node_cpu:ratio[15m])",
        "avg_over_time(instance:node_memory_utilisation:ratio[15m])",
        "stddev_over_time(instance:node_cpu:ratio[15m])",
        "stddev_over_time(instance:node_memory_utilisation:ratio[15m])",
    ]
    assert {(url, headers["Authorization"], insecure) for url, _, headers, insecure in client.asked} == {
        ("https://prom/api/v1/query", "Bearer secret", True)
    }
    assert source.name == "Prometheus https://prom/"


@pytest.mark.parametrize("answer", [{"data": {"result": [{"metric": {}, "value": [1, "x"]}]}}, {"status": "error"}])
def test_a_wrong_answer_of_prometheus(answer):
    with pytest.raises(SourceError, match="not a vector of Prometheus"):
        measured(Provider(PROMETHEUS), Client(answer))


def test_signalfx_names_hosts_by_their_series(monkeypatch):
    monkeypatch.setenv("SIGNALFX_CLUSTER_NAME", "c1")
    monkeypatch.setenv("SIGNALFX_HOST_NAME_SUFFIX", ".dc")
    series = {"results": [{"id": "A", "dimensions": {"host": "n1.dc", "sf_metric": None}}]}
    cpu, memory = {"data": {"A": [[1, 40.0], [2, 60.0]], "B": [[1, 1.0]]}}, {"data": {"A": []}}
    client = Client(cpu, series, memory, series)
    assert metrics(Provider(SIGNALFX, token="t"), client) == {"n1": [("CPU", "AVG", 50)]}
    url, query, headers, _ = client.asked[0]
    assert url == "https://api.signalfx.com/v1/timeserieswindow"
    assert query == {
        "query": 'host:*.dc AND cluster:c1 AND sf_metric:"cpu.utilization"',
        "startMs": f"{END - 900}000",
        "endMs": f"{END}000",
        "resolution": "60000",
    }
    assert headers == {"X-SF-Token": "t"}
    with pytest.raises(SourceError, match="not SignalFx's"):
        measured(Provider(SIGNALFX), Client({}, {}))
