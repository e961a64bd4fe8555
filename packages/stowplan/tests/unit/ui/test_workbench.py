"""The workbench's server: requests are validated, tried, and undone."""

import json

import pytest
import yaml

from stowplan.ask.offline import Cluster
from stowplan.kube.api.api_errors import BadRequest, MethodNotAllowed
from stowplan.kube.api.users import ANONYMOUS_USER
from stowplan.net.serving.requests.messages import Request
from stowplan.ui.plan import plan_of
from stowplan.ui.workbench import Workbench
from support.page.client import rows
from support.plugins.answering_plugins import configuration
from support.what_if.objects import node, owned, pod


@pytest.fixture
def cluster():
    return Cluster(
        [
            node("a", zone="x"),
            node("b", zone="y"),
            owned(pod("web-0", nodeName="a")),
            owned(pod("web-1", nodeName="b")),
            pod("big", cpu="6"),
        ]
    )


def post(cluster, method="POST", **change):
    body = json.dumps({"change": change}).encode()
    page = Workbench(lambda: cluster).pages("/stowplan/")["/stowplan/what-if"]
    return json.loads(page(Request(method=method, path="/stowplan/what-if", user=ANONYMOUS_USER, body=body)).body)


def after(found):
    return {key: row["node"] for key, row in rows(found["plan"], "pods").items()}


def test_adding_nodes(cluster):
    found = post(cluster, scale=[{"kind": "ReplicaSet", "namespace": "default", "name": "web-abc", "replicas": 9}])
    assert (found["before"]["pods"], found["after"]["pods"]) == (2, 8)
    more = post(
        cluster,
        addNodes=[{"count": 2, "like": "a"}],
        scale=[{"kind": "ReplicaSet", "namespace": "default", "name": "web-abc", "replicas": 9}],
    )
    assert (more["after"]["nodes"], more["after"]["pods"]) == (4, 9)
    assert len(rows(more["plan"], "nodes")) == 2
    assert more["commands"][0].startswith("# add 2 nodes like a")
    assert more["commands"][1] == "kubectl scale -n default replicaset/web-abc --replicas=9"


def test_removing_a_node(cluster):
    found = post(cluster, remove=["a"])
    assert found["displaced"] == {"default/web-0": "b"}
    assert found["plan"]["goneNodes"] == ["a"]
    assert after(found)["default/web-0"] == "b"
    assert found["commands"] == ["kubectl delete node a"]


def test_draining_a_node(cluster):
    found = post(cluster, drain=["a"])
    assert after(found)["default/web-0"] == "b"
    assert rows(found["plan"], "nodes")["a"]["unschedulable"]
    assert found["commands"] == ["kubectl drain a --ignore-daemonsets --delete-emptydir-data"]


def test_labels_and_taints(cluster):
    found = post(
        cluster,
        label=[{"node": "a", "key": "disk", "value": "s s d"}, {"node": "b", "key": "disk", "value": None}],
        taint=[
            {"node": "a", "key": "gpu", "value": "yes", "effect": "NoExecute"},
            {"node": "b", "key": "gpu", "remove": True},
        ],
    )
    assert after(found)["default/web-0"] == "b"
    assert found["commands"] == [
        "kubectl label node a 'disk=s s d' --overwrite",
        "kubectl label node b disk-",
        "kubectl taint node a gpu=yes:NoExecute --overwrite",
        "kubectl taint node b gpu-",
    ]


def test_manifests(cluster):
    found = post(cluster, manifests=yaml.safe_dump(node("c", cpu="8")))
    assert found["placed"] == {"default/big": "c"}
    assert "name: c" in found["manifests"]


def test_weights(cluster):
    found = post(cluster, weights={"default-scheduler": {"NodeResourcesFit": 50, "ImageLocality": 0}})
    (profile,) = yaml.safe_load(found["config"])["profiles"]
    weights = {one["name"]: one["weight"] for one in profile["plugins"]["multiPoint"]["enabled"]}
    assert weights["NodeResourcesFit"] == 50
    assert profile["plugins"]["score"]["disabled"] == [{"name": "ImageLocality"}]


def test_weights_of_a_plugin_that_only_another_profile_scores_with():
    off = {"score": {"disabled": [{"name": "ImageLocality"}]}}
    config = configuration({"schedulerName": "one"}, {"schedulerName": "two", "plugins": off})
    with pytest.raises(BadRequest, match="profile 'two' does not score with 'ImageLocality'"):
        post(Cluster([node("a")], config), weights={"two": {"ImageLocality": 50}})


def test_a_configuration(cluster):
    config = configuration({"schedulerName": "default-scheduler", "percentageOfNodesToScore": 50})
    assert "percentageOfNodesToScore: 50" in post(cluster, config=yaml.safe_dump(config))["config"]


def test_everything_is_undone(cluster):
    before = plan_of(cluster.state)
    post(cluster, remove=["a"], addNodes=[{"count": 3, "like": "b"}])
    assert plan_of(cluster.state) == before


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, "nothing changes"),
        ({"remove": ["nope"]}, 'node "nope" not found'),
        ({"addNodes": [{"count": 0, "like": "a"}]}, "addNodes: count: want 1 to 10,000, got 0"),
        ({"addNodes": [{"count": 10**9, "like": "a"}]}, "addNodes: count"),
        ({"addNodes": [{"count": "3", "like": "a"}]}, r"\$.change.addNodes\[0\].count"),
        ({"delete": ["a"]}, "unknown field `delete`"),
        ({"taint": [{"node": "a", "key": "k", "effect": "Never"}]}, "taint: effect: want one of NoSchedule"),
        ({"label": [{"node": "a", "key": "", "value": "x"}]}, "label: key: must not be empty"),
        ({"scale": [{"kind": "Job", "namespace": "d", "name": "n", "replicas": 1}]}, "it has no pod in this cluster"),
        ({"weights": {"nobody": {}}}, "there is no profile 'nobody'"),
        ({"weights": {"default-scheduler": {"NodeName": 3}}}, "does not score with 'NodeName'"),
        ({"weights": {"default-scheduler": {"NodeAffinity": 101}}}, "weights: NodeAffinity: want 0 to 100"),
        ({"config": "["}, "config: "),
        ({"config": "- a"}, "config: want a KubeSchedulerConfiguration"),
        ({"config": "kind: Pod"}, "what-if: "),
        ({"manifests": "kind: Pod\napiVersion: v1\nmetadata: {name: 3}"}, "what-if: "),
        # The maximum depth of Python's JSON parser depends on its version; deeper input, also as YAML, is refused.
        ({"manifests": "[" * 2000}, "nested (too deeply|deeper than 200 levels)"),
    ],
)
def test_invalid_changes_are_refused(cluster, change, said):
    before = plan_of(cluster.state)
    with pytest.raises(BadRequest, match=said):
        post(cluster, **change)
    assert plan_of(cluster.state) == before


def test_only_post_is_allowed(cluster):
    with pytest.raises(MethodNotAllowed):
        post(cluster, method="GET")
    page = Workbench(lambda: cluster).pages("/stowplan/")["/stowplan/what-if"]
    with pytest.raises(BadRequest, match="what-if: Input data was truncated"):
        page(Request(method="POST", path="/stowplan/what-if", user=ANONYMOUS_USER, body=b"{"))


def test_a_plan_of_moves(cluster):
    found = post(cluster, rebalance="free-nodes=1")
    (move,) = found["rebalance"]["moves"]
    assert (move["pod"], move["reason"]) in {("default/web-0", "empties a"), ("default/web-1", "empties b")}
    assert after(found)[move["pod"]] == move["to"]
    assert found["displaced"] == {move["pod"]: move["to"]}
    assert found["commands"][1] == f"kubectl cordon {move['from']}"
    assert post(cluster, remove=["a"])["rebalance"] is None
    with pytest.raises(BadRequest, match=r"rebalance: want mend\|spread\|pack\|free-nodes=N\|room-for, got 'tidy'"):
        post(cluster, rebalance="tidy")


def test_room_for_the_pods_of_manifests(cluster):
    found = post(cluster, manifests=json.dumps(pod("large", "4")), rebalance="room-for")
    (move,) = found["rebalance"]["moves"]
    assert found["rebalance"]["placed"] == {"default/large": move["from"]}
    assert after(found) == {"default/large": move["from"], move["pod"]: move["to"]}
    assert found["commands"][1] == f"kubectl cordon {move['from']}"
    assert found["commands"][-1] == "kubectl apply -f manifests.yaml"
    with pytest.raises(BadRequest, match="room-for: give the manifests of the pods"):
        post(cluster, rebalance="room-for")
