"""The descheduler's own tables of cases: which pods each strategy selects, what its evictor takes, which arguments are
valid. `descheduler_cases.jsonl.gz` has inputs and results, recorded while its tests ran.

Where a result differed from run to run (its order of pods is that of a Go map), only the number of pods is compared.

Strategies are compared twice: with an evictor that says yes, and with plans, in which the scheduler decides. There the
same pods leave, or the plan says why not.
"""

import gzip
import json
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from stowplan import Cluster
from stowplan.ask.rebalance import ByPolicy, read_policy, rebalance
from stowplan.ask.rebalance.policy.arguments import DefaultEvictor
from stowplan.ask.rebalance.policy.evictor import EvictionCounts, Evictor
from stowplan.ask.rebalance.policy.pods_in_full import PodInFull, PodsInFull
from stowplan.ask.rebalance.policy.policy_file import API_VERSION, KIND, STRATEGIES, read_arguments
from stowplan.ask.rebalance.policy.snapshot import Snapshot
from stowplan.kube.api.decode import convert, decode_object
from stowplan.kube.api.meta import parse_timestamp
from stowplan.kube.api.pod import FINISHED
from stowplan.kube.api.types import Pod

CASES = [
    json.loads(line)
    for line in gzip.decompress(Path(__file__).with_name("descheduler_cases.jsonl.gz").read_bytes()).splitlines()
]
KINDS = {
    "nodes": ("v1", "Node"),
    "namespaces": ("v1", "Namespace"),
    "claims": ("v1", "PersistentVolumeClaim"),
    "budgets": ("policy/v1", "PodDisruptionBudget"),
    "classes": ("scheduling.k8s.io/v1", "PriorityClass"),
}
LIMITS = ("maxNoOfPodsToEvictPerNode", "maxNoOfPodsToEvictPerNamespace", "maxNoOfPodsToEvictTotal")
ARGUMENTS = {**{name: one.arguments for name, one in STRATEGIES.items()}, "DefaultEvictor": DefaultEvictor}


def objects(case, name):
    version, kind = KINDS[name]
    return [decode_object({"apiVersion": version, "kind": kind, **one}) for one in case.get(name, ())]


def a_snapshot(case):
    raws = case.get("pods", ())
    pods = [decode_object({"apiVersion": "v1", "kind": "Pod", **raw}) for raw in raws]
    full = {id(found): convert(raw, PodInFull) for found, raw in zip(pods, raws, strict=True)}
    return Snapshot(
        pods=[(found, found.spec.node_name) for found in pods],
        in_full=lambda found: full[id(found)],
        now=parse_timestamp(case["now"]),
        measured=case.get("nodeUse"),
        measured_pods=case.get("podUse"),
        **{name: objects(case, name) for name in KINDS},
    )


def an_evictor(case, snapshot, evicted):
    arguments, problems = read_arguments(DefaultEvictor, case["evictor"])
    assert not problems

    def evict(pod, reason, avoiding):
        evicted.append(pod.key)
        return True

    return Evictor(arguments, snapshot, evict, EvictionCounts(*case.get("limits", (None, None, None))))


def a_policy(case):
    plugins = {STRATEGIES[case["plugin"]].point: {"enabled": [case["plugin"]]}}
    config = [{"name": case["plugin"], "args": case["args"]}, {"name": "DefaultEvictor", "args": case["evictor"]}]
    profile = {"name": "p", "pluginConfig": config, "plugins": plugins}
    limits = {name: one for name, one in zip(LIMITS, case.get("limits", ()), strict=False) if one is not None}
    return read_policy({"apiVersion": API_VERSION, "kind": KIND, "profiles": [profile], **limits})


def a_plan(case):
    cluster = Cluster((), now=parse_timestamp(case["now"]))
    cluster.documents.keep_also((Pod,))
    for one in (one for name in KINDS for one in objects(case, name)):
        cluster.add(one)
    finished = []
    for raw in case["pods"]:
        made = {"apiVersion": "v1", "kind": "Pod", **raw}
        for owner in raw["metadata"].get("ownerReferences", ())[:1]:
            # The tables' pods have owners that nobody calls controllers.
            owner["controller"] = True
        if raw.get("status", {}).get("phase") in FINISHED:
            finished.append(decode_object(made))
            cluster.documents.keep(finished[-1], msgspec.json.encode(made))
        else:
            cluster.add(made)
    pods = PodsInFull(cluster.documents, tuple(finished))
    return rebalance(cluster, ByPolicy(a_policy(case), pods, case.get("nodeUse"), case.get("podUse")))


def of_kind(kind):
    return [
        pytest.param(case, id=f"{case.get('plugin', '')}-{number}")
        for number, case in enumerate(CASES)
        if case["kind"] == kind
    ]


@pytest.mark.parametrize("case", of_kind("strategy"))
def test_evicted_pods(case):
    strategy, snapshot, evicted = STRATEGIES[case["plugin"]], a_snapshot(case), []
    arguments, problems = read_arguments(strategy.arguments, case["args"])
    assert arguments is not None, problems
    strategy.run(snapshot, objects(case, "nodes"), an_evictor(case, snapshot, evicted), arguments)
    if isinstance(case["evicted"], int):
        assert len(evicted) == case["evicted"]
    else:
        assert sorted(evicted) == sorted(case["evicted"])


@pytest.mark.parametrize("case", [*of_kind("Filter"), *of_kind("PreEvictionFilter")])
def test_what_the_evictor_takes(case):
    snapshot = a_snapshot(case)
    evictor = an_evictor(case, snapshot, [])
    nodes = {raw["spec"].get("nodeName", "") for raw in case.get("pods", ())}
    [pod] = [one for node in nodes for one in snapshot.all_pods_on(node) if one.key == case["pod"]]
    takes = evictor.takes if case["kind"] == "Filter" else evictor.takes_at_last
    assert takes(pod) == case["result"]


@pytest.mark.parametrize("case", of_kind("validation"))
def test_valid_arguments(case):
    found, problems = read_arguments(ARGUMENTS[case["plugin"]], case["args"])
    assert (found is not None and not problems) == case["valid"]


@pytest.mark.parametrize("plugin", STRATEGIES)
def test_the_scheduler_decides(plugin):
    """Without a second node there is nowhere to go, and the descheduler does nothing, either."""
    equal = 0
    for case in of_plugin(plugin):
        found = a_plan(case)
        left = [*(move.pod for move in found.moves), *(one.pod for one in found.removals)]
        selected = case["evicted"] if isinstance(case["evicted"], int) else len(set(case["evicted"]))
        equal += len(left) == selected
        # A pod that its table evicts twice has two owners.
        # A pod that has failed needs no other node, so nodeFit does not keep it.
        assert len(left) <= selected or found.removals
        assert len(left) >= selected or found.kept or case["evicted"] == TWICE
        for kept in found.kept:
            assert kept.kept.startswith(WHY_KEPT)
    assert (equal, len(of_plugin(plugin))) == AGREE[plugin]


#: Cases with two nodes or more in which as many pods leave as in the table, of so many. In the others the scheduler
#: places pods nowhere, or where they were.
AGREE = {
    "PodLifeTime": (0, 0),
    "RemoveFailedPods": (1, 3),
    "RemovePodsHavingTooManyRestarts": (6, 6),
    "RemovePodsViolatingInterPodAntiAffinity": (3, 4),
    "RemovePodsViolatingNodeAffinity": (20, 20),
    "RemovePodsViolatingNodeTaints": (4, 5),
    "HighNodeUtilization": (11, 17),
    "LowNodeUtilization": (34, 41),
    "RemoveDuplicates": (21, 25),
    "RemovePodsViolatingTopologySpreadConstraint": (36, 38),
}
#: The start of every reason.
WHY_KEPT = ("no other node takes it: ", "the scheduler would put it on ")
#: A case in which pods with two owners are evicted twice.
TWICE = 4


def of_plugin(plugin):
    cases = (case for case in CASES if case["kind"] == "strategy" and case["plugin"] == plugin)
    # Two tables have arguments that validation refuses.
    valid = (case for case in cases if not case["args"].get("evictableNamespaces", {}).get("include"))
    return [case for case in valid if len(case["nodes"]) > 1]


def test_all_strategies_have_cases():
    counted = Counter(case["plugin"] for case in CASES if case["kind"] == "strategy")
    assert set(counted) == set(STRATEGIES)
