"""A group's trial that decides equal pods together has the same result as one that tries each pod separately.

Nodes, messages and victims of every placement must be the same, and so must the pods' final state.
"""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import stowplan
from stowplan.kube.kubernetes_versions import V1_37
from stowplan.scheduler.engine.evaluation import sampling
from stowplan.scheduler.engine.groups.equal_pods import EqualPods
from stowplan.scheduler.framework.interface import PermitPlugin, ReservePlugin
from stowplan.scheduler.framework.status import Code, Status, error
from stowplan.testing import a_node, a_pod
from support.examples import examples
from support.observing.metrics import framework_metrics, numbers
from support.plugins.answering_plugins import configuration

GATES = {"GenericWorkload": True, "GangScheduling": True, "TopologyAwareWorkloadScheduling": True}
HOST, ZONE, RACK = "kubernetes.io/hostname", "topology.kubernetes.io/zone", "rack"
GANG = {"matchLabels": {"gang": "g"}}


def worker():
    return a_pod("w").labels(gang="g")


SHAPES = {
    "plain": worker().requests(cpu="1"),
    "small": worker().requests(cpu="100m"),
    "whole node": worker().requests(cpu="4"),
    "gpu": worker().requests({"example.com/gpu": "1"}, cpu="500m"),
    "wants nothing": worker(),
    "one a host": worker().requests(cpu="100m").avoids_pods(HOST, GANG),
    "spread by zone": worker().requests(cpu="100m").spreads(ZONE, GANG),
    "spread softly": worker().requests(cpu="100m").spreads(HOST, GANG, when_unsatisfiable="ScheduleAnyway"),
    "near each other": worker().requests(cpu="100m").requires_pods(ZONE, GANG),
    "likes each other": worker().requests(cpu="100m").prefers_pods(10, ZONE, GANG),
    "away from others": worker().requests(cpu="100m").avoids_pods(ZONE, {"matchLabels": {"app": "db"}}),
    "port": worker().requests(cpu="100m").host_port(8080),
    "disk": worker().requests(cpu="100m").volume("d", gcePersistentDisk={"pdName": "one"}),
    "disk to read": worker().volume("d", gcePersistentDisk={"pdName": "one", "readOnly": True}),
    "claims": worker().requests(cpu="100m").claims_volume("own-{i}"),
    "one claim": worker().requests(cpu="100m").claims_volume("shared"),
    "important": worker().requests(cpu="2").priority(10),
    "prefers ssd": worker().requests(cpu="1").prefers_node(5, {"key": "disk", "operator": "In", "values": ["ssd"]}),
}


def node(i, cpu, racks):
    made = a_node(f"n{i}").zone("ab"[i % 2]).labels({RACK: f"r{i % racks}"} | ({"disk": "ssd"} if i % 3 else {}))
    made.allocatable({"example.com/gpu": str(i % 3)}, cpu=str(cpu), memory="8Gi", pods="6")
    return made.tainted("soft", effect="PreferNoSchedule").obj() if i % 4 == 3 else made.obj()


def group(gang, topology):
    spec = {"schedulingPolicy": {"gang": {"minCount": gang}} if gang else {"basic": {}}}
    if topology:
        spec["schedulingConstraints"] = {"topology": [{"key": RACK}]}
    metadata = {"name": "g", "namespace": "default"}
    return {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "metadata": metadata, "spec": spec}


def volumes(count):
    yield {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "local"},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    for name in ("shared", *(f"own-{i}" for i in range(count))):
        yield {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "storageClassName": "local",
                "accessModes": ["ReadWriteOncePod" if name == "shared" else "ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }
    for i in range(count):
        terms = [{"matchExpressions": [{"key": HOST, "operator": "In", "values": [f"n{i % 5}"]}]}]
        yield {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": f"pv{i}"},
            "spec": {
                "storageClassName": "local",
                "accessModes": ["ReadWriteOnce", "ReadWriteOncePod"],
                "capacity": {"storage": "1Gi"},
                "local": {"path": "/x"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
            },
        }


def members(runs, *, indexed):
    i = 0
    for shape, count in runs:
        for _ in range(count):
            made = SHAPES[shape].obj()
            made["metadata"] = {**made["metadata"], "name": f"w{i:02}", "uid": f"w{i:02}"}
            if indexed:
                made["metadata"]["labels"] = {**made["metadata"]["labels"], "index": str(i)}
                made["metadata"]["annotations"] = {"batch.kubernetes.io/job-completion-index": str(i)}
                made["spec"] = {**made["spec"], "hostname": f"g-{i}", "subdomain": "g"}
            made["spec"] = {**made["spec"], "schedulingGroup": {"podGroupName": "g"}}
            for volume in made["spec"].get("volumes", ()):
                claim = volume.get("persistentVolumeClaim")
                if claim:
                    volume |= {"persistentVolumeClaim": {"claimName": claim["claimName"].format(i=i)}}
            yield made
            i += 1


def there(fillers, nodes):
    """Low-priority pods that are already placed."""
    for i, (kind, at) in enumerate(fillers):
        pod = a_pod(f"f{i}").uid(f"f{i}").on(f"n{at % nodes}").requests(cpu="1").labels(app="db" if kind else "x")
        if kind == 2:
            pod.avoids_pods(HOST, GANG)
        yield pod.obj()


def scenario(drawn, version):
    objects = [node(i, cpu, drawn["racks"]) for i, cpu in enumerate(drawn["sizes"])]
    objects += there(drawn["fillers"], len(drawn["sizes"]))
    objects += volumes(12)
    # Since 1.37 all pods have the group's priority.
    since_137 = version == "1.37"
    runs = [("plain" if since_137 and shape == "important" else shape, count) for shape, count in drawn["runs"]]
    objects += [group(drawn["gang"], drawn["topology"]), *members(runs, indexed=drawn["indexed"])]
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "percentageOfNodesToScore": drawn["percentage"],
    }
    gates = {name: on for name, on in GATES.items() if not since_137 or name != "GangScheduling"}
    chance = random.Random(drawn["seed"])
    return stowplan.Cluster(objects, config, random=chance, feature_gates=gates, emulated_version=version)


scenarios = st.fixed_dictionaries(
    {
        "sizes": st.lists(st.integers(1, 4), min_size=1, max_size=7),
        "racks": st.integers(1, 3),
        "fillers": st.lists(st.tuples(st.integers(0, 2), st.integers(0, 6)), max_size=4),
        "gang": st.sampled_from((0, 1, 2, 4, 7, 12)),
        "topology": st.booleans(),
        "runs": st.lists(st.tuples(st.sampled_from(sorted(SHAPES)), st.integers(1, 8)), min_size=1, max_size=3),
        "indexed": st.booleans(),
        "percentage": st.sampled_from((100, 100, 40)),
        "seed": st.integers(0, 3),
    }
)


def judged(cluster):
    with cluster.engine.asking_about_group("default/g") as question:
        found = question.judgement()
    return found.status.message, found.waiting, [_domain(domain) for domain in found.domains]


def _domain(domain):
    placed = [(one.pod.key, one.node, one.victims) for one in domain.placed]
    refused = [(one.pod.key, one.message, one.reason, one.plugins) for one in domain.refused]
    return domain.name, domain.nodes, domain.status.code, domain.status.message, domain.chosen, placed, refused


def scheduled(cluster):
    return [decision.to_dict() for decision in cluster.schedule()]


class Watched(EqualPods):
    """Keeps how many pods were decided together each time, and of how many equal ones how many were rejected."""

    def __init__(self, algorithm):
        super().__init__(algorithm, permits=True)
        self.together, self.asked = [], []

    def decided(self, framework, pods, within):
        result = super().decided(framework, pods, within)
        self.together.append(len(result.decisions))
        return result

    def rejected(self, framework, like, pods, within):
        found = super().rejected(framework, like, pods, within)
        self.asked.append((len(pods), len(found)))
        return found


class OneByOne(EqualPods):
    """No pod is equal to another one."""

    def end(self, framework, pods, first):
        return first + 1


def one_by_one(cluster):
    permits = cluster.engine.features.emulated_version < V1_37
    cluster.engine.groups.trials.equal_pods = OneByOne(cluster.algorithm, permits=permits)


def watched(cluster):
    found = cluster.engine.groups.trials.equal_pods = Watched(cluster.algorithm)
    return found


@pytest.fixture
def _few_are_enough(monkeypatch):
    monkeypatch.setattr(sampling, "LEAST_FEASIBLE", 2)


@pytest.mark.usefixtures("_few_are_enough")
@pytest.mark.parametrize("version", ["1.36", "1.37"])
def test_together_has_the_same_result_as_one_by_one(version):
    @examples(60)
    @given(scenarios)
    def agrees(drawn):
        cluster, other = scenario(drawn, version), scenario(drawn, version)
        before = cluster.engine.state.dump()
        got, again = judged(cluster), judged(cluster)
        assert cluster.engine.state.dump() == before
        one_by_one(other)
        want, afterwards = judged(other), scheduled(other)
        assert got == again == want
        assert scheduled(cluster) == afterwards
        assert cluster.engine.dump() == other.engine.dump()

    agrees()


# -- by example -------------------------------------------------------------------------------------------------------


def a_gang(*runs, gang=6, topology=True, indexed=False, sizes=(4, 4, 4, 4), plugins=()):
    objects = [node(i, cpu, 2) for i, cpu in enumerate(sizes)]
    objects += [group(gang, topology), *members(runs, indexed=indexed)]
    enabled = [{"name": plugin.name} for plugin in plugins]
    config = configuration({"schedulerName": "default-scheduler", "plugins": {"multiPoint": {"enabled": enabled}}})
    return stowplan.Cluster(objects, config, feature_gates=GATES, emulated_version="1.36", plugins=plugins)


def test_equal_pods_are_decided_together_in_each_rack():
    cluster = a_gang(("plain", 6))
    found = watched(cluster)
    with cluster.engine.asking_about_group("default/g") as question:
        domains = question.judgement().domains
    assert found.together == [6, 6]
    assert [len(domain.placed) for domain in domains] == [6, 6]


def test_pods_of_an_indexed_job_are_decided_together():
    cluster = a_gang(("plain", 6), indexed=True)
    found = watched(cluster)
    judged(cluster)
    assert found.together == [6, 6]


def test_pods_that_do_not_fit_are_tried_separately():
    cluster = a_gang(("plain", 12), gang=12, sizes=(4, 4, 1, 1))
    pods = watched(cluster)
    found = judged(cluster)
    assert pods.together == [5, 5]
    assert [(len(placed), len(refused)) for *_, placed, refused in found[2]] == [(5, 7), (5, 7)]
    assert found[2][0][-1][0][2] == "0/2 nodes are available: 2 Insufficient cpu."


def test_a_launcher_and_its_workers():
    cluster = a_gang(("important", 1), ("small", 8))
    found = watched(cluster)
    judged(cluster)
    assert found.together == [0, 8, 0, 8]


class Refuses(ReservePlugin):
    """Fails for one pod."""

    name = "Refuses"

    def reserve(self, state, pod, node_name):
        return error("no") if pod.pod.metadata.name == "w03" else None

    def unreserve(self, state, pod, node_name):
        pass


class RefusesInPermit(PermitPlugin):
    name = "RefusesInPermit"

    def permit(self, state, pod, node_name):
        return (Status(Code.Unschedulable, ("not this one",)), 0.0) if pod.pod.metadata.name == "w03" else (None, 0.0)


@pytest.mark.parametrize("plugin", [Refuses, RefusesInPermit])
def test_plugins_without_declarations_are_called_for_every_pod(plugin):
    cluster, other = (a_gang(("plain", 6), plugins=(plugin,)) for _ in range(2))
    pods = watched(cluster)
    one_by_one(other)
    assert judged(cluster) == judged(other)
    assert set(pods.together) == {0}


def counted(gang, *, alone):
    """The number of runs of each extension point, and of attempts that reused results of earlier ones."""
    cluster = a_gang(("plain", 12), gang=gang, sizes=(4, 4, 1, 1))
    framework = next(iter(cluster.engine.algorithm.frameworks.values()))
    metrics = framework_metrics()
    framework.metrics, framework.handle.metrics = metrics, metrics.scheduler
    metrics.count_calls_of(framework.points)
    if alone:
        one_by_one(cluster)
    scheduled(cluster)
    runs = numbers(metrics.scheduler.framework_extension_point_duration_seconds)
    runs = {point: count for point, count in runs.items() if "Sign" not in point}
    return runs, numbers(metrics.scheduler.batch_attempts_total), metrics.scheduler.preemption_attempts_total.value


@pytest.mark.parametrize("gang", [4, 12])
def test_metrics_count_each_pod(gang):
    runs, hints, preemptions = counted(gang, alone=False)
    plain_runs, plain_hints, plain_preemptions = counted(gang, alone=True)
    assert runs == plain_runs
    assert preemptions == plain_preemptions > 0
    assert runs["Permit", "Wait", "default-scheduler"] > 0
    used = "default-scheduler", "hint_used"
    assert hints[used] == plain_hints[used] == 9


def test_equal_pods_that_do_not_fit_are_rejected_at_once_if_plugins_allow():
    big = a_gang(("plain", 12), gang=12, sizes=(4, 4, 1, 1))
    pods = watched(big)
    judged(big)
    assert pods.asked == [(6, 6), (6, 6)]
    other = a_gang(("spread by zone", 12), ("port", 8), gang=30, topology=False)
    pods = watched(other)
    judged(other)
    assert pods.asked == [(4, 4)]
