"""Invariants of all simulations: no pod is lost, no node is over-allocated, and results are deterministic.

Scenarios combine all kinds of workloads, faults and models, with preemption, gates, budgets, claims, pod groups,
rollouts and the autoscaler. The ledger is compared with a witness in the store (`support.scenarios.witness`).
"""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.examples import times
from support.scenarios.manifests import a_workload, container, group, pod, stateful
from support.scenarios.witness import run, witnessed

APP = {"app": "d"}
_CLAIM_MODES = ("WaitForFirstConsumer", "Immediate")


def _gang_member():
    return pod("1500m", schedulingGroup={"podGroupName": "gang"})


def _documents(mode, *allowed):
    """The documents of the cluster's file: storage classes, a gang, and a budget if there is one."""
    yield {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "fast"},
        "provisioner": "example.com/disks",
        "volumeBindingMode": mode,
    }
    yield {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "gang", "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}},
    }
    for budget in allowed:
        yield {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "budget", "namespace": "default"},
            "spec": {**budget, "selector": {"matchLabels": APP}},
        }


SPANS = st.sampled_from([0, 5, 30, 90, 240])
LIFETIMES = st.sampled_from([None, 20, {"exponential": 60}, {"uniform": [10, 200]}])
MANIFESTS = [
    pod("1"),
    pod("2500m"),
    pod("1", priority=10),
    pod("2500m", priority=100, preemptionPolicy="PreemptLowerPriority"),
    pod("1", priority=20, preemptionPolicy="Never"),
    pod("500m", schedulingGates=[{"name": "never"}]),
    pod("500m", schedulerName="somebody-else"),
    pod("500m", tolerations=[{"key": "k", "operator": "Exists", "tolerationSeconds": 20}]),
    _gang_member(),
    a_workload("Deployment", replicas=3, selector={"matchLabels": APP}, labels=APP),
    a_workload("ReplicaSet", "500m", replicas=2, selector={"matchLabels": APP}, labels=APP),
    a_workload("Job", "500m", parallelism=2, completions=3),
    a_workload("StatefulSet", "500m", replicas=2, podManagementPolicy="Parallel"),
    stateful(replicas=2),
    a_workload("DaemonSet", "100m"),
]
WORKLOADS = st.builds(
    lambda manifest, when, lifetime, each: {
        "manifest": manifest,
        **when,
        "each": each,
        **({"lifetime": lifetime or 30} if lifetime or manifest["kind"] == "Job" else {}),
    },
    st.sampled_from(MANIFESTS),
    st.sampled_from(
        [{"at": 0}, {"at": [10, 50]}, {"poisson": "3/m", "until": 200}, {"every": "7s", "count": 6, "at": 3}]
    ),
    LIFETIMES,
    st.integers(1, 3),
)
NODES = st.sampled_from([{"group": "a"}, {"group": "b", "count": 1}, {"zone": "x"}, {}])
EVENTS = st.builds(
    lambda at, what: {"at": at, **what},
    SPANS,
    st.one_of(
        st.builds(lambda nodes, span: {"fail": {**nodes, **({"for": span} if span else {})}}, NODES, SPANS),
        st.builds(
            lambda nodes, then: {"drain": {**nodes, "then": then}}, NODES, st.sampled_from(["uncordon", "remove"])
        ),
        st.builds(lambda nodes: {"upgrade": {**nodes, "takes": 30}}, NODES),
        st.builds(lambda nodes: {"reclaim": {**nodes, "notice": 20}}, NODES),
        st.builds(lambda nodes: {"taint": {**nodes, "key": "k", "effect": "NoExecute", "for": 50}}, NODES),
        st.sampled_from(
            [
                {"outage": {"zone": "x", "for": 100}},
                {"resize": {"group": "a", "count": 1}},
                {"price": {"group": "a", "price": 2}},
                {"rebalance": {"goal": "pack"}, "every": 50},
                {"rebalance": {"goal": "spread", "atOncePerOwner": 2}},
            ]
        ),
    ),
)


def _kind(workload):
    return workload["manifest"]["kind"]


def _changes_of(workloads, rollouts):
    """Each of these changes for every workload that can be rolled out, and a new size if it has one."""
    for number, workload in enumerate(workloads):
        if _kind(workload) in ("Deployment", "StatefulSet", "DaemonSet"):
            for at, cpu in rollouts:
                patch = {"patch": {"spec": {"template": {"spec": {"containers": [container(cpu)]}}}}} if cpu else {}
                yield {"at": at, "rollout": {"workload": f"w{number}", **patch}}


LIMITS = {"min": 1, "max": 4, "boot": 20, "idle": 60}
SCENARIOS = st.builds(
    lambda workloads, events, rollouts, scales, duration, models, documents: {
        "cluster": {
            "groups": [
                group(
                    "a",
                    2,
                    zones=["x", "y"],
                    price=1,
                    **({} if scales is None else {"autoscale": {**LIMITS, "utilization": scales}}),
                ),
                group("b", 1, 2, zones=["x"], taints=[{"key": "k", "effect": "PreferNoSchedule"}]),
            ]
        },
        "workloads": [{"name": f"w{i}", **one} for i, one in enumerate(workloads)],
        "events": [*events, *(_changes_of(workloads, rollouts) if models.get("controllers", True) else ())],
        "models": models,
        "duration": duration,
        "output": {"every": 20},
        "scheduler": {"featureGates": {"GenericWorkload": True}},
        "documents": documents,
    },
    st.lists(WORKLOADS, min_size=1, max_size=4),
    st.lists(EVENTS, min_size=1, max_size=4),
    st.lists(st.tuples(SPANS, st.sampled_from([None, "500m", "2500m", "99"])), max_size=2),
    st.sampled_from([None, 0, 0.5, 1]),
    st.sampled_from([60, 150, 150, 400]),
    st.sampled_from([{}, {"startup": 0, "termination": 0}, {"controllers": False}, {"latency": {"uniform": [0, 1]}}]),
    st.builds(
        lambda mode, budgets: list(_documents(mode, *budgets)),
        st.sampled_from(_CLAIM_MODES),
        st.sampled_from([[], [], [{"minAvailable": 2}], [{"maxUnavailable": 1}], [{"maxUnavailable": 0}]]),
    ),
)


def in_folder(scenario, folder):
    """The scenario, with its documents in a file."""
    documents = scenario.pop("documents")
    (folder / "cluster.yaml").write_text("\n---\n".join(msgspec.json.encode(one).decode() for one in documents))
    scenario["cluster"]["files"] = [str(folder / "cluster.yaml")]
    return any(one["kind"] == "PodDisruptionBudget" for one in documents)


@pytest.mark.slow
@settings(max_examples=times(25), deadline=None)
@given(SCENARIOS)
def test_no_pod_is_lost_and_no_node_is_overallocated(tmp_path_factory, scenario):
    has_budgets = in_folder(scenario, tmp_path_factory.mktemp("scenario"))
    found, witness = witnessed(scenario)
    if "latency" not in scenario["models"]:
        witness.check_engine()
    check_arrivals(scenario, found)
    check_deployments(scenario, witness)
    check_gangs(witness)
    if not has_budgets:
        check_drains(scenario, witness)


def check_arrivals(scenario, found):
    """As many pods were created as the scenario says, for workloads with known times."""
    came = Counter(row.workload for row in found.decisions)
    for workload in scenario["workloads"]:
        if _kind(workload) == "Pod" and "poisson" not in workload:
            at = workload.get("at", 0)
            all_of_them = at if isinstance(at, list) else [at + 7 * i for i in range(workload.get("count", 1))]
            wanted = workload["each"] * sum(one <= scenario["duration"] for one in all_of_them)
            assert came[workload["name"]] == wanted


def check_deployments(scenario, witness):
    """A Deployment has its replicas, except right after a loss and during rollouts."""
    rolled = {event["rollout"]["workload"] for event in scenario["events"] if "rollout" in event}
    if not scenario["models"].get("controllers", True):
        return
    for workload in scenario["workloads"]:
        if _kind(workload) == "Deployment" and workload["name"] not in rolled:
            of_workload = {}
            for one in witness.pods.values():
                owner = one.controller
                if (
                    owner is not None
                    and owner.kind == "ReplicaSet"
                    and one.pod.metadata.uid.startswith(workload["name"])
                ):
                    of_workload.setdefault(owner.uid, []).append(one)
            for pods in of_workload.values():
                alive = sum(one.ended is None and one.marked is None for one in pods)
                lost = [one.ended if one.marked is None else one.marked for one in pods]
                just_now = sum(at is not None and witness.now - at <= 0.2 for at in lost)
                assert alive <= 3 <= alive + just_now


def check_gangs(witness):
    """No member of a gang is placed unless the minimum was, at that moment or before."""
    placed = [one.placed for one in witness.pods.values() if one.pod.spec.scheduling_group is not None]
    placed = sorted(at for at in placed if at is not None)
    if placed:
        assert sum(at <= placed[0] + 1.0 for at in placed) >= 3


def check_drains(scenario, witness):
    """Without budgets pods leave a drained node at once, except those of DaemonSets."""
    for event in scenario["events"]:
        drain = event.get("drain") or event.get("reclaim")
        if drain is None or event["at"] > scenario["duration"] or "count" in drain:
            continue
        for one in witness.pods.values():
            labels = witness.labels.get(one.node, {})
            is_chosen = (
                not one.node
                or drain.get("group", one.node.split("-")[0]) != one.node.split("-")[0]
                or drain.get("zone", labels.get("topology.kubernetes.io/zone"))
                != labels.get("topology.kubernetes.io/zone")
            ) is False
            is_bound = one.placed is not None and one.placed < event["at"] and one.is_there(event["at"])
            if is_chosen and is_bound and (one.controller is None or one.controller.kind != "DaemonSet"):
                left = one.ended if one.marked is None else one.marked
                assert left is not None, f"{one.pod.metadata.name} is still on {one.node}, drained at {event['at']}"
                assert left <= event["at"] + 1.0


@settings(max_examples=times(8), deadline=None)
@given(SCENARIOS)
def test_results_are_deterministic(tmp_path_factory, scenario):
    in_folder(scenario, tmp_path_factory.mktemp("scenario"))
    first, second = run(scenario), run(scenario)
    assert msgspec.json.encode((first.summary, first.series)) == msgspec.json.encode((second.summary, second.series))
    assert first.decisions == second.decisions
    assert first.report() == second.report()
