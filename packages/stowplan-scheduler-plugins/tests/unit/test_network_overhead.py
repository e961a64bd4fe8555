"""NetworkOverhead: near what a workload depends on, by the costs between zones and regions."""

import pytest

import stowplan
from stowplan.testing import a_node, a_pod
from stowplan_scheduler_plugins.app_groups import APP_GROUP, WORKLOAD, searched
from stowplan_scheduler_plugins.network_overhead import MAX_COST, SAME_ZONE, Place, costs_from, toll

CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "plugins": {
                "multiPoint": {"enabled": [{"name": "NetworkOverhead"}]},
                "score": {"enabled": [{"name": "NetworkOverhead"}], "disabled": [{"name": "*"}]},
            }
        }
    ],
}
REGION, ZONE = "topology.kubernetes.io/region", "topology.kubernetes.io/zone"


def lists(key, **costs):
    """The costs from origins to destinations."""
    origins = [
        {"origin": origin, "costList": [{"destination": to, "networkCost": cost} for to, cost in of_origin.items()]}
        for origin, of_origin in costs.items()
    ]
    return {"topologyKey": key, "originList": origins}


TOPOLOGY = {
    "apiVersion": "networktopology.diktyo.x-k8s.io/v1alpha1",
    "kind": "NetworkTopology",
    "metadata": {"name": "nt-default", "namespace": "default"},
    "spec": {
        "weights": [
            {
                "name": "UserDefined",
                "topologyList": [lists(ZONE, z1={"z2": 5}, z2={"z1": 5}), lists(REGION, east={"west": 20})],
            }
        ]
    },
}


def app_group(most):
    """Workload `web` depends on `db`, over a network that costs at most this."""
    dependency = {"workload": {"selector": "db"}, "maxNetworkCost": most}
    return {
        "apiVersion": "appgroup.diktyo.x-k8s.io/v1alpha1",
        "kind": "AppGroup",
        "metadata": {"name": "shop", "namespace": "default"},
        "spec": {"workloads": [{"workload": {"selector": "web"}, "dependencies": [dependency]}]},
    }


def of_group(name, workload):
    return a_pod(name).labels({APP_GROUP: "shop", WORKLOAD: workload})


def a_place(name, region, zone):
    labels = {REGION: region, ZONE: zone}
    return a_node(name).labels(**{key: value for key, value in labels.items() if value}).obj()


def verdict(*objects, most=10):
    nodes = [a_place("n1", "east", "z1"), a_place("n2", "east", "z2"), a_place("n3", "east", "z3")]
    cluster = stowplan.Cluster([*nodes, app_group(most), *objects], config=CONFIG)
    return cluster.explain(of_group("new", "web").obj()).to_dict()


def scores(found):
    return {node: of_node["NetworkOverhead"] for node, of_node in found["scores"].items()}


DB = of_group("db", "db").on("n2").obj()


def test_the_node_of_what_it_depends_on_is_best_and_unknown_costs_are_the_worst():
    assert scores(verdict(TOPOLOGY, DB)) == {"n1": 95, "n2": 100, "n3": 0}


def test_a_node_beyond_the_maximum_is_refused():
    found = verdict(TOPOLOGY, DB, most=4)
    (reason,) = found["rejected"]["n1"]["reasons"]
    assert reason.endswith("Satisfied: 0 Violated: 1")
    assert set(found["scores"]) == {"n2", "n3"}


@pytest.mark.parametrize("objects", [(DB,), (TOPOLOGY,)], ids=["without costs", "without what it depends on"])
def test_all_nodes_are_equal_without_knowledge(objects):
    assert len(set(scores(verdict(*objects)).values())) == 1


EAST, WEST, NOWHERE = Place("east", "z1"), Place("west", "z9"), Place("", "")
COSTS = {("z1", "z2"): 5, ("east", "west"): 20}


@pytest.mark.parametrize(
    ("here", "there", "expected"),
    [
        pytest.param(EAST, EAST, (1, 0, SAME_ZONE), id="same zone"),
        pytest.param(EAST, Place("east", "z2"), (1, 0, 5), id="another zone"),
        pytest.param(EAST, WEST, (0, 1, 20), id="another region, too expensive"),
        pytest.param(WEST, EAST, (0, 0, MAX_COST), id="cost is not known"),
        pytest.param(EAST, NOWHERE, (0, 1, MAX_COST), id="neither region nor zone"),
    ],
)
def test_satisfied_violated_and_cost(here, there, expected):
    assert toll(here, there, COSTS, 10) == expected


def test_costs_start_from_the_own_region_and_zone():
    origins = [{"topologies": [lists(REGION, east={"west": 20}), lists(ZONE, z1={"z2": 5})], "sorted": True}]
    assert costs_from(EAST, origins) == {("east", "west"): 20, ("z1", "z2"): 5}
    assert costs_from(NOWHERE, origins) == {}


def test_what_is_not_sorted_may_be_missed():
    assert searched([{"k": "a"}, {"k": "b"}, {"k": "c"}], "k", "c") == {"k": "c"}
    assert searched([{"k": "c"}, {"k": "b"}, {"k": "a"}], "k", "c") is None
