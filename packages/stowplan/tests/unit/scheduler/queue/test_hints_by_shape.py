"""Hints depend only on what they declare, for every change in the reference's clusters.

Those that declare to read no more of a pod than its shape give the same answer for a pod with another name, UID,
annotations and status. Those about objects that pods name return Skip for pods that do not name the changed one.
"""

import pytest

from golden import compare
from stowplan.kube.kubernetes_versions import V1_36
from stowplan.scheduler.framework.events import Hint, events_of_change
from support.scheduling.worlds import struct
from support.tables import every_case


def twin_of(pod):
    metadata = pod["metadata"] | {"name": "twin-of-it", "uid": "twin", "annotations": {"a": "twin"}}
    return {**pod, "metadata": metadata, "status": {"message": "twin", "nominatedNodeName": "somewhere"}}


def answer(hint, pod, old, new):
    try:
        return hint(pod, old, new)
    except Exception:
        return Hint.QUEUE


def hear(registered, events):
    return any(registered.event.covers(event) for event in events)


def is_not_concerned(pod, registered, old, new):
    """Whether the registration says that its hint need not be called."""
    named, changed = registered.named, old if new is None else new
    if named is None or (named.concerns_all is not None and named.concerns_all(old, new)):
        return False
    return f"{changed.metadata.namespace or 'default'}/{changed.metadata.name}" not in named.of_pod(pod)


@pytest.mark.parametrize("category", compare.CLAIMED)
def test_twins_get_one_answer(category):
    with every_case() as case:
        for scenario in compare.scenarios(category):
            with case(scenario["name"]):
                twins_get_one_answer(scenario)


def twins_get_one_answer(scenario):
    cluster = compare.cluster_of(scenario)
    pairs = [(cluster.pod(pod), cluster.pod(twin_of(pod))) for pod in scenario["pods"]]
    asked = 0
    for change in scenario["changes"]:
        old, new = struct(change.get("old")), struct(change.get("new"))
        events, changed = events_of_change(old, new, V1_36), (old if new is None else new)
        for pod, twin in pairs:
            assert pod.shape is twin.shape
            if changed.metadata.uid == pod.uid or changed.metadata.name == pod.pod.metadata.name:
                continue
            for name, registrations in cluster.framework_of(pod).registered_events().items():
                for r in registrations:
                    if hear(r, events) and is_not_concerned(pod, r, old, new):
                        assert answer(r.hint, pod, old, new) is Hint.SKIP, (name, change)
                    if r.by_shape and hear(r, events):
                        asked += 1
                        assert answer(r.hint, pod, old, new) == answer(r.hint, twin, old, new), (name, change)
    assert asked
