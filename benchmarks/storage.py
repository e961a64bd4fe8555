"""Pods with volumes: bound ones of a CSI driver, in-tree ones that a driver took over, and ones still to be made.

    python benchmarks/storage.py [--pods 2000] [--nodes 5000] [--volumes 5000] [--scenario csi migrated wffc local]
                                 [--rate 200] [--profile FILE]

One process, no API server, no clock: the engine in virtual time on its object store. Each pod has a claim of its own.
Before the first comes there are that many volumes, each bound to a claim, and a CSINode for each node. `csi` and
`migrated`: the pods' claims are bound before, to volumes of one zone each. `wffc`: the claims wait for their pod; a
volume is made, and bound, 50 ms after the scheduler has named a node. `local`: the claims wait for their pod, and there
are as many free volumes as pods, each on one node. `plain`: the same pods without claims, to compare with.

A line a scenario: pods per second of real time, CPU of all of it and of the scheduling cycles alone, in µs a pod.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import logging
import time
from random import Random
from typing import TYPE_CHECKING, Any

import shapes
from virtual_time import Meter

from stowplan.drivers.virtual_time.driver import VirtualTime
from stowplan.drivers.virtual_time.object_store import ObjectStore
from stowplan.drivers.virtual_time.virtual_api import VirtualApi
from stowplan.kube.api.decode import convert
from stowplan.kube.api.types import (
    CSINode,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    StorageClass,
)
from stowplan.kube.config import load_config
from stowplan.scheduler.engine.context import EngineSettings
from stowplan.scheduler.engine.engine import Engine
from stowplan.scheduler.engine.inputs import Schedule
from stowplan.scheduler.framework.requests import Create
from stowplan.scheduler.in_tree.registry import in_tree_registry

if TYPE_CHECKING:
    from collections.abc import Iterator

SCENARIOS = ("plain", "csi", "migrated", "wffc", "local")
DRIVER = "ebs.csi.aws.com"
MIGRATED = "storage.alpha.kubernetes.io/migrated-plugins"
COMPLETED = "pv.kubernetes.io/bind-completed"
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
#: Seconds until a provisioner has made a volume, and the binder has bound it.
PROVISIONING = 0.05


class Stopwatch(Engine):
    """An engine that measures its scheduling cycles."""

    deciding = 0.0

    def step(self, input_: Any, now: float) -> list[Any]:
        if type(input_) is not Schedule:
            return super().step(input_, now)
        began = time.process_time()
        effects = super().step(input_, now)
        self.deciding += time.process_time() - began
        return effects


def volume(name: str, *, claim: str = "", uid: str = "", on: dict[str, str], migrated: bool = False) -> dict[str, Any]:
    source = (
        {"awsElasticBlockStore": {"volumeID": f"vol-{name}"}}
        if migrated
        else {"csi": {"driver": DRIVER, "volumeHandle": name}}
    )
    expressions = [{"key": key, "operator": "In", "values": [value]} for key, value in on.items()]
    spec = {
        "capacity": {"storage": "10Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "disk",
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}},
        **source,
    }
    if claim:
        spec["claimRef"] = {"namespace": "default", "name": claim, "uid": uid}
    status = {"phase": "Bound" if claim else "Available"}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec, "status": status}


def claim(name: str, bound_to: str = "") -> dict[str, Any]:
    spec: dict[str, Any] = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "disk",
        "resources": {"requests": {"storage": "10Gi"}},
    }
    metadata: dict[str, Any] = {"name": name, "namespace": "default", "uid": f"{name}-uid"}
    if bound_to:
        spec["volumeName"], metadata["annotations"] = bound_to, {COMPLETED: "yes"}
    status = {"phase": "Bound" if bound_to else "Pending"}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec, "status": status}


def csi_node(name: str, *, migrated: bool) -> dict[str, Any]:
    annotations = {MIGRATED: "kubernetes.io/aws-ebs"} if migrated else {}
    drivers = [{"name": DRIVER, "nodeID": name, "topologyKeys": [ZONE], "allocatable": {"count": 39}}]
    metadata = {"name": name, "annotations": annotations}
    return {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": metadata, "spec": {"drivers": drivers}}


class World:
    """What is there before the first pod, and the pods."""

    def __init__(self, scenario: str, options: argparse.Namespace) -> None:
        self.scenario, self.options = scenario, options
        self.chance = Random(options.seed)

    def objects(self) -> Iterator[Any]:
        zones = []
        for i in range(self.options.nodes):
            node = shapes.node(i)
            labels = node["metadata"]["labels"]
            labels[HOST] = node["metadata"]["name"]
            labels["topology.ebs.csi.aws.com/zone"] = labels[ZONE]
            zones.append(labels[ZONE])
            yield convert(node, Node)
            migrated = self.scenario == "migrated"
            yield convert(csi_node(node["metadata"]["name"], migrated=migrated), CSINode)
        provisioner = "kubernetes.io/no-provisioner" if self.scenario == "local" else DRIVER
        yield convert(
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "StorageClass",
                "metadata": {"name": "disk"},
                "provisioner": provisioner,
                "volumeBindingMode": "WaitForFirstConsumer",
            },
            StorageClass,
        )
        for i in range(self.options.volumes):
            yield from self.bound(f"there-{i}", zones[i % len(zones)])
        for i in range(self.options.pods):
            yield from self.of_pod(i, zones)

    def bound(self, name: str, zone: str) -> Iterator[Any]:
        migrated = self.scenario == "migrated"
        made = volume(f"pv-{name}", claim=name, uid=f"{name}-uid", on={ZONE: zone}, migrated=migrated)
        yield convert(made, PersistentVolume)
        yield convert(claim(name, bound_to=f"pv-{name}"), PersistentVolumeClaim)

    def of_pod(self, i: int, zones: list[str]) -> Iterator[Any]:
        if self.scenario in ("csi", "migrated"):
            yield from self.bound(f"c-{i}", self.chance.choice(zones))
        elif self.scenario in ("wffc", "local"):
            yield convert(claim(f"c-{i}"), PersistentVolumeClaim)
        if self.scenario == "local":
            yield convert(volume(f"local-{i}", on={HOST: f"node-{i % self.options.nodes:05d}"}), PersistentVolume)

    def pods(self) -> Iterator[tuple[float, Create]]:
        for i in range(self.options.pods):
            pod = shapes.pod(i, "basic")
            pod["metadata"] |= {"name": f"p-{i}", "uid": f"p-{i}", "namespace": "default"}
            if self.scenario != "plain":
                pod["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": f"c-{i}"}}]
            yield i / self.options.rate, Create(obj=convert(pod, Pod))


def measure(scenario: str, options: argparse.Namespace) -> None:
    registry, store = in_tree_registry(), ObjectStore()
    engine = Stopwatch(
        load_config(None, plugins=registry.declarations),
        registry=registry,
        now=0.0,
        meter=Meter(),
        random=Random(options.seed),
        settings=EngineSettings(stories=False, events=False),
        api=VirtualApi(),
    )
    run = VirtualTime(engine, store, binds_volumes_after=PROVISIONING)
    world = World(scenario, options)
    for obj in world.objects():
        run.write(Create(obj=obj))
    run.run()
    gc.collect()
    began = time.perf_counter(), time.process_time()
    run.feed(world.pods())
    run.run()
    seconds, cpu = time.perf_counter() - began[0], time.process_time() - began[1]
    placed = sum(bool(pod.spec.node_name) for pod in store.list(Pod))
    each = 1e6 / options.pods
    print(
        f"{scenario:>10} {options.pods / seconds:14,.0f} {cpu * each:10,.0f} {engine.deciding * each:12,.0f}",
        flush=True,
    )
    assert not run.refused, run.refused[:3]
    assert placed == options.pods, f"{placed} of {options.pods} pods were placed"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=2000)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--volumes", type=int, default=5000, help="that are there before, each bound to a claim")
    parser.add_argument("--rate", type=float, default=200.0, help="pods that come each simulated second")
    parser.add_argument("--scenario", nargs="+", default=list(SCENARIOS), choices=SCENARIOS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--profile", help="write a profile of the run here")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    print(f"{options.pods:,} pods, {options.nodes:,} nodes, {options.volumes:,} volumes")
    print(f"{'':>10} {'pods a second':>14} {'CPU µs':>10} {'deciding, µs':>12}")
    for scenario in options.scenario:
        if options.profile:
            cProfile.runctx("measure(scenario, options)", globals(), locals(), options.profile)
        else:
            measure(scenario, options)


if __name__ == "__main__":
    main()
