"""Pod groups and their pods on a `live_cluster`."""

from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import strategies as st

from stowplan.scheduler.engine.groups.group_trials import Reservations
from stowplan.testing import a_node, a_pod


def node(name, cpu=2, **labels):
    return a_node(name).allocatable(cpu=str(cpu), memory="8Gi", pods="110").labels(**labels).obj()


def member(name, group="g", cpu="1", **spec):
    return a_pod(name).requests(cpu=cpu).spec(schedulingGroup={"podGroupName": group}, **spec).obj()


def a_group(name="g", *, gang=None, topology=None, mode=None, priority=None, parent=None):
    """`gang` of None: a basic group. `mode`: its disruption mode, an object since v1beta1. `parent`: since v1beta1."""
    spec: dict[str, Any] = {"schedulingPolicy": {"basic": {}} if gang is None else {"gang": {"minCount": gang}}}
    if mode is not None:
        spec["disruptionMode"] = mode
    if priority is not None:
        spec["priority"] = priority
    if topology is not None:
        spec["schedulingConstraints"] = {"topology": [{"key": topology}]}
    if parent is not None:
        spec["parentCompositePodGroupName"] = parent
    metadata = {"name": name, "namespace": "default", "uid": f"group-{name}", "generation": 1}
    version = "v1alpha2" if parent is None and not isinstance(mode, dict) else "v1beta1"
    return {"apiVersion": f"scheduling.k8s.io/{version}", "kind": "PodGroup", "metadata": metadata, "spec": spec}


def a_composite(name, *, gang=None, topology=None, mode=None, priority=None, parent=None):
    """A group of groups; `gang`: how many of its children must be scheduled."""
    group = a_group(name, topology=topology, mode=mode or {"single": {}}, priority=priority, parent=parent)
    policy = {"basic": {}} if gang is None else {"gang": {"minGroupCount": gang}}
    spec = {**group["spec"], "schedulingPolicy": policy}
    metadata = {**group["metadata"], "uid": f"composite-{name}"}
    header = {"apiVersion": "scheduling.k8s.io/v1alpha3", "kind": "CompositePodGroup"}
    return {**header, "metadata": metadata, "spec": spec}


@contextmanager
def check_exact_undo():
    """Checks that every trial restores the whole cluster exactly, in each placement and around each wait."""
    opened, undone = Reservations.open, Reservations.undo
    before = {}

    def opening(trial):
        before[trial] = trial.state.dump()
        opened(trial)

    def undoing(trial):
        undone(trial)
        if trial in before:
            assert trial.state.dump() == before.pop(trial)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Reservations, "open", opening)
        patch.setattr(Reservations, "undo", undoing)
        yield


def nodes_of(cluster, *names):
    return [cluster.node_of(name) for name in names]


def condition(cluster, group="g"):
    found = cluster.get("podgroups.scheduling.k8s.io", group).get("status", {}).get("conditions", [])
    return [(one["status"], one["reason"], one.get("message", "")) for one in found]


@st.composite
def preempting_worlds(draw, *modes):
    """What a gang may preempt: CPUs of nodes; groups: (priority, mode); pods: (node, group or -1, priority, start or
    None, guarded by a budget); what the gang wants: (pods, CPUs of each, priority); what the budget allows.
    """
    nodes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    groups = draw(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(modes)), max_size=3))
    free, pods = list(nodes), []
    for _ in range(draw(st.integers(0, 10))):
        fitting = [i for i, left in enumerate(free) if left]
        if not fitting:
            break
        on = draw(st.sampled_from(fitting))
        free[on] -= 1
        started = draw(st.none() | st.integers(0, 5))
        pods.append((on, draw(st.integers(-1, len(groups) - 1)), draw(st.integers(0, 3)), started, draw(st.booleans())))
    wanted = draw(st.integers(1, 4)), draw(st.integers(1, 2)), draw(st.integers(0, 3))
    return nodes, groups, pods, wanted, draw(st.integers(0, 2))
