"""Commands that only read, pages and a `Cluster` write no line of a scheduler's log, at any verbosity."""

import json

import pytest

from stowplan.app.sources.cluster_source import ClusterSource
from stowplan.ask.offline import Cluster
from stowplan.kube.api.users import ANONYMOUS_USER
from stowplan.kube.klog import logger
from stowplan.net.serving.requests.messages import Request
from stowplan.testing import a_node, a_pod
from stowplan.ui.cluster_inspection import ClusterInspection
from support.what_if.objects import pod

#: Plugins that are named again are reported by kube-scheduler at startup.
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{plugins: {multiPoint: {enabled: [{name: ImageLocality, weight: 3}]}}}]
"""


def objects():
    yield a_node("n1").allocatable(cpu="4", memory="8Gi", pods="10").obj()
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "nowhere"}}
    other = {"metadata": {"name": "other", "namespace": "default"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    yield {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **other}
    yield pod("low", nodeName="n1", cpu="3")
    yield pod("waits", volumes=[volume])
    yield pod("high", cpu="3", priority=10)
    yield pod("same", cpu="3")
    yield a_pod("gated").gated("wait").obj()
    group = {
        "metadata": {"name": "gang", "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
    }
    yield {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", **group}
    for name in ("g0", "g1"):
        yield pod(name, cpu="3", schedulingGroup={"podGroupName": "gang"})


@pytest.fixture
def lines():
    """What is logged meanwhile, however detailed."""

    class Kept(list):
        def write(self, entry):
            self.append(entry.message)

    kept = Kept()
    logger.configure(sink=kept, verbosity=10)
    yield kept
    logger.configure()


@pytest.mark.parametrize(
    "command",
    [
        "explain",
        "explain pod waits",
        "explain node n1 -o json",
        "explain podgroup/gang",
        "fit pod/waits",
        "fit podgroup/gang",
        "what-if --remove n1",
        "drain n1",
        "survive",
        "ui --export page",
    ],
)
def test_a_command_that_reads(run, files, lines, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.yaml").write_text(CONFIG)
    ran = run(*command.split(), "-f", files(*objects()), "--config", "config.yaml")
    assert ran.code == 0, ran.err
    assert lines == []


@pytest.mark.parametrize(
    "path", ["explain/default/high", "explain/default/waits", "pending", "nodes/n1", "podgroups/default/gang"]
)
def test_an_answer_on_a_page(lines, path):
    gates = {"GenericWorkload": True, "GangScheduling": True}
    pages = ClusterInspection(
        ClusterSource(Cluster(objects(), feature_gates=gates, emulated_version="1.36"), {})
    ).pages("/")
    route = max((route for route in pages if f"/{path}".startswith(route)), key=len)
    query = {"suggestions": ["true"]}
    answer = pages[route](Request(method="GET", path=f"/{path}", user=ANONYMOUS_USER, query=query))
    assert json.loads(answer.body)
    assert lines == []


def test_a_cluster_in_a_notebook(lines):
    cluster = Cluster(objects())
    cluster.explain("default/waits").suggestions()
    cluster.schedule()
    assert "default/waits" in cluster.pending()
    assert lines == []
