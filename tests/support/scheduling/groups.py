"""Pod groups and their pods on a `live_cluster`."""

from contextlib import contextmanager
from typing import Any

import pytest

from stowplan.scheduler.engine.groups.group_trials import PlacementTrial
from stowplan.testing import a_node, a_pod


def node(name, cpu=2, **labels):
    return a_node(name).allocatable(cpu=str(cpu), memory="8Gi", pods="110").labels(**labels).obj()


def member(name, group="g", cpu="1", **spec):
    return a_pod(name).requests(cpu=cpu).spec(schedulingGroup={"podGroupName": group}, **spec).obj()


def a_group(name="g", *, gang=None, topology=None, mode=None, priority=None):
    """`gang` of None: a basic group. `mode`: its disruption mode, an object since v1beta1."""
    spec: dict[str, Any] = {"schedulingPolicy": {"basic": {}} if gang is None else {"gang": {"minCount": gang}}}
    if mode is not None:
        spec["disruptionMode"] = mode
    if priority is not None:
        spec["priority"] = priority
    if topology is not None:
        spec["schedulingConstraints"] = {"topology": [{"key": topology}]}
    metadata = {"name": name, "namespace": "default", "uid": f"group-{name}", "generation": 1}
    version = "v1beta1" if isinstance(mode, dict) else "v1alpha2"
    return {"apiVersion": f"scheduling.k8s.io/{version}", "kind": "PodGroup", "metadata": metadata, "spec": spec}


@contextmanager
def check_exact_undo():
    """Checks that every trial restores the whole cluster exactly, in each placement and around each wait."""
    opened, undone = PlacementTrial.open, PlacementTrial.undo
    before = {}

    def opening(trial):
        before[trial] = trial.state.dump()
        opened(trial)

    def undoing(trial):
        undone(trial)
        if trial in before:
            assert trial.state.dump() == before.pop(trial)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PlacementTrial, "open", opening)
        patch.setattr(PlacementTrial, "undo", undoing)
        yield


def nodes_of(cluster, *names):
    return [cluster.node_of(name) for name in names]


def condition(cluster, group="g"):
    found = cluster.get("podgroups.scheduling.k8s.io", group).get("status", {}).get("conditions", [])
    return [(one["status"], one["reason"], one.get("message", "")) for one in found]
