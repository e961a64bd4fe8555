"""A quota, and claims of StatefulSets, on the embedded cluster and in a simulation: the same once all has settled.

When a refused controller tries again differs by less than a minute, so what is compared is settled.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from copy import deepcopy
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from stowplan.kube.api.decode import to_dict
from stowplan.kube.api.types import PersistentVolume, PersistentVolumeClaim, Pod
from stowplan_cluster.controllers.controller_manager import workload_controllers
from stowplan_cluster.controllers.volumes.volume_controllers import Provisioner, VolumeBinder
from stowplan_lab.simulation.simulate import Simulation
from support.api.storage_objects import claim, storage_class
from support.examples import examples
from support.live.controller_cluster import START, LiveCluster, workload
from support.live.two_clocks import template
from support.scenarios.manifests import group, scenario

#: Seconds between changes: longer than the longest delay of a controller that tries again.
BETWEEN = 200
QUOTA = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "default"}}


def manifest(kind, name, replicas):
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template(100, name)}
    if kind == "StatefulSet":
        own = claim(class_="fast", volumeMode="Filesystem")
        spec |= {"serviceName": name, "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": own["spec"]}]}
        spec["podManagementPolicy"] = "Parallel"
    return {"kind": kind, "spec": spec}


class Simulated:
    def __init__(self, workloads, files, changes):
        folder = Path(tempfile.mkdtemp())
        (folder / "objects.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": files}))
        events = [
            {"at": place * BETWEEN, "scale": {"workload": name, "replicas": replicas}}
            for place, (name, replicas) in enumerate(changes, start=1)
        ]
        found = scenario(
            *({"name": name, "manifest": deepcopy(one)} for name, one in workloads.items()),
            groups=[group("node", count=1, cpu=100, labels={})],
            events=events,
            duration=(len(changes) + 1) * BETWEEN,
            models={"startup": 1, "termination": 0, "controllerDelay": 0},
        )
        found["cluster"]["files"] = [str(folder / "objects.json")]
        self._simulation = Simulation(found)
        self._simulation.prepare()

    def at(self, seconds):
        context = self._simulation.context
        context.time.advance(context.start + seconds - context.now)
        return seen(*([to_dict(one) for one in context.store.list(kind)] for kind in KINDS))


KINDS = (Pod, PersistentVolumeClaim, PersistentVolume)
STORAGES = ("pods", "persistentvolumeclaims", "persistentvolumes")


class Embedded:
    def __init__(self, workloads, files):
        controllers = lambda registry: [*workload_controllers(registry), VolumeBinder(registry), Provisioner(registry)]  # noqa: E731
        self._cluster = LiveCluster(controllers)
        self._cluster.server.set_admission(enabled=frozenset(["ResourceQuota"]))
        self._cluster.add_node("node-1")
        for one in (*files, *({**workload(one["kind"], name), "spec": one["spec"]} for name, one in workloads.items())):
            self._cluster.create(one)

    def at(self, seconds):
        """What is there so many seconds from the start."""
        self._cluster.live()
        while self._cluster.now < START + seconds:
            due = self._cluster.loop.next_due()
            self._cluster.now = START + seconds if due is None else min(START + seconds, max(due, self._cluster.now))
            self._cluster.live()
        found = ([stored.to_dict() for stored in self._cluster.store.list(storage)] for storage in STORAGES)
        return seen(*found)

    def scale(self, kind, name, replicas):
        self._cluster.scale(kind, name, replicas)


def seen(pods, claims, volumes):
    """Numbers of pods by the kind of their owner, and the claims and volumes of those that exist.

    A simulation also has the claims of pods that are refused: a controller on a cluster gives up after the first.
    """
    owners = Counter(pod["metadata"]["ownerReferences"][0]["kind"] for pod in pods)
    names = {f"data-{pod['metadata']['name']}" for pod in pods}
    bound = {one["spec"]["claimRef"]["name"] for one in volumes}
    return owners, names & {one["metadata"]["name"] for one in claims}, names & bound


sizes = st.integers(0, 5)


@examples(12)
@given(st.integers(1, 6), sizes, st.lists(sizes, min_size=1, max_size=3), sizes, st.lists(sizes, max_size=2))
def test_refused_pods_come_when_there_is_room(limit, first, later, others, fewer):
    """Only one of two workloads is ever refused, so that who gets the room is certain."""
    others = min(others, limit)
    fewer = sorted((min(one, others) for one in fewer), reverse=True)
    workloads = {"others": manifest("ReplicaSet", "others", others), "db": manifest("StatefulSet", "db", first)}
    kinds = {name: one["kind"] for name, one in workloads.items()}
    changes = [*(("db", one) for one in later), *(("others", one) for one in fewer)]
    files = [{**QUOTA, "spec": {"hard": {"pods": str(limit)}}}, storage_class()]
    simulated, embedded = Simulated(workloads, files, changes), Embedded(workloads, files)
    for place, change in enumerate([*changes, None], start=1):
        end = place * BETWEEN - 10
        assert embedded.at(end) == simulated.at(end), f"before change {place}"
        if change:
            embedded.at(place * BETWEEN)
            embedded.scale(kinds[change[0]], *change)
