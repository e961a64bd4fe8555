"""What must hold once faults have ended: in the API, in the scheduler, and between them."""

import stowplan
from support.soak.changes import CONFIG, FOREIGN, delaying_plugin
from support.soak.checks import (
    equals_a_rebuild,
    every_pod_is_bound_or_rightly_pending,
    nothing_is_under_way,
    structs,
)

FINISHED = ("Succeeded", "Failed")


def check_consistency(api, scheduler, watcher):
    """No pod moved, was lost, or is recorded on the wrong node; no pod is pending that fits."""
    assert watcher.wrong == []
    nothing_is_under_way(scheduler)
    equals_a_rebuild(api, scheduler.state)
    every_pod_is_bound_or_rightly_pending(api, scheduler)
    check_all_pods_accounted_for(api, scheduler)


def check_all_pods_accounted_for(api, scheduler):
    """Each pod is either on a node or in the queue; gated pods are in the queue, too."""
    ours = [pod for pod in _pods(api) if pod["spec"]["schedulerName"] != FOREIGN]
    waiting = {pod["metadata"]["uid"] for pod in ours if not pod["spec"].get("nodeName")}
    placed = {pod["metadata"]["uid"] for pod in _pods(api) if pod["spec"].get("nodeName")}
    assert {queued.pod.uid for queued in scheduler.queue.pending()} == waiting
    assert {info.uid for info in scheduler.state.placed_pods()} == placed


def check_pending_pods_are_explained(api, scheduler):
    """Once every pending pod has been tried again, its condition and its story say why it is pending; returns their
    number."""
    cluster = stowplan.Cluster(structs(api), CONFIG, plugins=[delaying_plugin(None)])
    told = 0
    for pod in _pods(api):
        if pod["spec"].get("nodeName") or pod["spec"]["schedulerName"] == FOREIGN:
            continue
        key = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        (condition,) = [c for c in pod["status"].get("conditions", []) if c["type"] == "PodScheduled"]
        told += 1
        if pod["spec"].get("schedulingGates"):
            assert condition["reason"] == "SchedulingGated", key
            continue
        assert (condition["status"], condition["reason"]) == ("False", "Unschedulable"), key
        assert condition["message"] == cluster.explain(key).full_message, key
        story = scheduler.stories.of(key)
        decided = [step.outcome for step in story.steps if step.outcome is not None]
        assert decided, key
        assert decided[-1].message == condition["message"], key
    return told


def _pods(api):
    pods = (stored.to_dict() for stored in api.store.list("pods", ""))
    return [pod for pod in pods if pod["status"].get("phase") not in FINISHED]
