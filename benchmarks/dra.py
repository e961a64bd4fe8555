"""Pods with claims for devices: one GPU each, extended resources, prioritized lists, partitions.

    python benchmarks/dra.py [--pods 1000] [--nodes 500] [--scenario plain gpu half full ...] [--rate 200]
                             [--distinct] [--profile FILE]

One process, no API server, no clock: the engine in virtual time on its object store. Each node has eight GPUs, in a
slice and pool of its own; each pod has a claim of its own, made from one template.

`gpu`: one device each, all free before. `named`: the same, but each pod names its claim. `half`: half of the devices of
each node are allocated before. `full`: all are, and with each pod that comes one claim goes. `extended`: an extended
resource of one of 25 classes, no claim; it is made and stored by the scheduler. `prioritized`: two large devices, else
one of any kind. `partitions`: every GPU can be had as a whole, as two halves or as four quarters, which share its
memory; a claim asks for two halves of one GPU, whole ones and quarters are taken before. `plain`: the same pods without
claims, to compare with.

`--distinct`: each device has a serial number of its own, so that no two are equal.

A line a scenario: pods per second of real time, CPU of all of it and of the scheduling cycles alone in µs a pod, and
the first cycle in ms, which compiles what drivers have published.
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
from stowplan.kube.api.types import DeviceClass, Node, Pod, ResourceClaim, ResourceSlice
from stowplan.kube.config import load_config
from stowplan.scheduler.engine.context import EngineSettings
from stowplan.scheduler.engine.engine import Engine
from stowplan.scheduler.engine.inputs import Schedule
from stowplan.scheduler.framework.requests import Create, Delete, Request
from stowplan.scheduler.in_tree.registry import in_tree_registry

if TYPE_CHECKING:
    from collections.abc import Iterator

SCENARIOS = ("plain", "gpu", "named", "half", "full", "extended", "prioritized", "partitions")
API, DRIVER = "resource.k8s.io/v1", "gpu.example.com"
DEVICES, CLASSES = 8, 25
#: Pods' claims select by these.
SELECTOR = (
    f'device.attributes["{DRIVER}"].model == "a100" && '
    f'device.capacity["{DRIVER}"].memory.isGreaterThan(quantity("40Gi"))'
)


class Stopwatch(Engine):
    """An engine that measures its scheduling cycles."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.cycles: list[float] = []

    def step(self, input_: Any, now: float) -> list[Any]:
        if type(input_) is not Schedule:
            return super().step(input_, now)
        began = time.process_time()
        effects = super().step(input_, now)
        self.cycles.append(time.process_time() - began)
        return effects


def of(kind: str, name: str, spec: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"apiVersion": API, "kind": kind, "metadata": {"name": name}, "spec": spec, **more}


def request(name: str = "gpu", *, count: int = 1, selector: str = SELECTOR) -> dict[str, Any]:
    selectors = [{"cel": {"expression": selector}}] if selector else []
    return {
        "name": name,
        "deviceClassName": "gpu",
        "allocationMode": "ExactCount",
        "count": count,
        "selectors": selectors,
    }


def exactly(*requests: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"name": r["name"], "exactly": {key: value for key, value in r.items() if key != "name"}} for r in requests]


class World:
    """What is there before the first pod, and the pods."""

    def __init__(self, scenario: str, options: argparse.Namespace) -> None:
        self.scenario, self.options = scenario, options

    # -- devices ------------------------------------------------------------------------------------------------------

    def device(self, node: int, place: int) -> dict[str, Any]:
        attributes: dict[str, Any] = {"model": {"string": "a100"}, "index": {"int": place}}
        if self.scenario == "extended":
            attributes["kind"] = {"int": (node * DEVICES + place) % CLASSES}
        if self.scenario == "prioritized":
            attributes["large"] = {"bool": place % 4 == 0}
        if self.options.distinct:
            attributes["uuid"] = {"string": f"gpu-{node}-{place}"}
        return {"name": f"gpu-{place}", "attributes": attributes, "capacity": {"memory": {"value": "80Gi"}}}

    def partitions(self, place: int) -> Iterator[dict[str, Any]]:
        for size, number in (("80Gi", 1), ("40Gi", 2), ("20Gi", 4)):
            for i in range(number):
                yield {
                    "name": f"gpu-{place}-{size.lower()}-{i}",
                    "attributes": {"parent": {"int": place}, "size": {"string": size}},
                    "consumesCounters": [{"counterSet": f"gpu-{place}", "counters": {"memory": {"value": size}}}],
                }

    def slices(self, node: int, name: str) -> Iterator[dict[str, Any]]:
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        if self.scenario != "partitions":
            devices = [self.device(node, i) for i in range(DEVICES)]
            yield of("ResourceSlice", name, {"driver": DRIVER, "pool": pool, "nodeName": name, "devices": devices})
            return
        pool["resourceSliceCount"] = 2
        devices = [partition for i in range(DEVICES) for partition in self.partitions(i)]
        yield of("ResourceSlice", name, {"driver": DRIVER, "pool": pool, "nodeName": name, "devices": devices})
        counters = [{"name": f"gpu-{i}", "counters": {"memory": {"value": "80Gi"}}} for i in range(DEVICES)]
        spec = {"driver": DRIVER, "pool": pool, "nodeName": name, "sharedCounters": counters}
        yield of("ResourceSlice", f"{name}-counters", spec)

    def taken(self) -> list[str]:
        """The devices of each node that are allocated before."""
        match self.scenario:
            case "half":
                return [f"gpu-{i}" for i in range(0, DEVICES, 2)]
            case "full":
                return [f"gpu-{i}" for i in range(DEVICES)]
            case "partitions":
                # Of the first three GPUs a half cannot be had, or only one: the search comes back from them.
                return ["gpu-0-80gi-0", "gpu-1-20gi-0", "gpu-2-20gi-3"]
        return []

    # -- objects ------------------------------------------------------------------------------------------------------

    def objects(self) -> Iterator[Any]:
        yield from self.classes()
        for i in range(self.options.nodes):
            node = shapes.node(i)
            name = node["metadata"]["name"]
            yield convert(node, Node)
            if self.scenario == "plain":
                continue
            for published in self.slices(i, name):
                yield convert(published, ResourceSlice)
            for device in self.taken():
                yield convert(self.allocated(name, device), ResourceClaim)
        if self.has_claims:
            for i in range(self.options.pods):
                yield convert(self.claim(i), ResourceClaim)

    @property
    def has_claims(self) -> bool:
        return self.scenario not in ("plain", "extended")

    def classes(self) -> Iterator[Any]:
        driver = f'device.driver == "{DRIVER}"'
        yield convert(of("DeviceClass", "gpu", {"selectors": [{"cel": {"expression": driver}}]}), DeviceClass)
        for i in range(CLASSES if self.scenario == "extended" else 0):
            kind = f'{driver} && device.attributes["{DRIVER}"].kind == {i}'
            spec = {"selectors": [{"cel": {"expression": kind}}], "extendedResourceName": f"example.com/gpu-{i}"}
            yield convert(of("DeviceClass", f"gpu-{i}", spec), DeviceClass)

    def allocated(self, node: str, device: str) -> dict[str, Any]:
        results = [{"request": "gpu", "driver": DRIVER, "pool": node, "device": device}]
        users = [{"resource": "pods", "name": f"{node}-{device}", "uid": f"{node}-{device}"}]
        found = of("ResourceClaim", f"{node}-{device}", {"devices": {"requests": exactly(request())}})
        found["metadata"] |= {"namespace": "default", "uid": f"{node}-{device}-uid"}
        found["status"] = {"allocation": {"devices": {"results": results}}, "reservedFor": users}
        return found

    def asked(self) -> dict[str, Any]:
        match self.scenario:
            case "prioritized":
                large = request("large", count=2, selector=f'{SELECTOR} && device.attributes["{DRIVER}"].large')
                return {"requests": [{"name": "gpu", "firstAvailable": [large, request("any")]}]}
            case "partitions":
                half = f'device.attributes["{DRIVER}"].size == "40Gi"'
                constraint = {"requests": [], "matchAttribute": f"{DRIVER}/parent"}
                requests = [request(name, selector=half) for name in ("first", "second")]
                return {"requests": exactly(*requests), "constraints": [constraint]}
        return {"requests": exactly(request())}

    def claim(self, i: int) -> dict[str, Any]:
        found = of("ResourceClaim", f"c-{i}", {"devices": self.asked()})
        owner = {"apiVersion": "v1", "kind": "Pod", "name": f"p-{i}", "uid": f"p-{i}", "controller": True}
        found["metadata"] |= {"namespace": "default", "uid": f"c-{i}-uid", "ownerReferences": [owner]}
        return found

    def pod(self, i: int) -> dict[str, Any]:
        pod: dict[str, Any] = shapes.pod(i, "basic")
        pod["metadata"] |= {"name": f"p-{i}", "uid": f"p-{i}", "namespace": "default"}
        if self.scenario == "extended":
            for amounts in pod["spec"]["containers"][0]["resources"].values():
                amounts[f"example.com/gpu-{i % CLASSES}"] = "1"
        if self.scenario == "named":
            pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": f"c-{i}"}]
        elif self.has_claims:
            pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
            pod.setdefault("status", {})["resourceClaimStatuses"] = [{"name": "gpu", "resourceClaimName": f"c-{i}"}]
        return pod

    def news(self) -> Iterator[tuple[float, Request]]:
        """What comes, and when."""
        chance = Random(self.options.seed)
        going = [f"node-{i:05d}-{device}" for i in range(self.options.nodes) for device in self.taken()]
        chance.shuffle(going)
        for i in range(self.options.pods):
            at = i / self.options.rate
            if self.scenario == "full":
                yield at, Delete(kind=ResourceClaim, namespace="default", name=going[i])
            yield at, Create(obj=convert(self.pod(i), Pod))


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
    run = VirtualTime(engine, store)
    world = World(scenario, options)
    for obj in world.objects():
        run.write(Create(obj=obj))
    run.run()
    gc.collect()
    began = time.perf_counter(), time.process_time()
    run.feed(world.news())
    run.run()
    seconds, cpu = time.perf_counter() - began[0], time.process_time() - began[1]
    placed = sum(bool(pod.spec.node_name) for pod in store.list(Pod))
    first, *others = engine.cycles
    each = 1e6 / (options.pods - 1)
    print(
        f"{scenario:>12} {options.pods / seconds:14,.0f} {(cpu - first) * each:10,.0f} {sum(others) * each:12,.0f}"
        f" {first * 1e3:10,.0f}",
        flush=True,
    )
    assert not run.refused, run.refused[:3]
    assert placed == options.pods, f"{placed} of {options.pods} pods were placed"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=1000)
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--rate", type=float, default=200.0, help="pods that come each simulated second")
    parser.add_argument("--scenario", nargs="+", default=list(SCENARIOS), choices=SCENARIOS)
    parser.add_argument("--distinct", action="store_true", help="no two devices are equal")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--profile", help="write a profile of the run here")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    print(f"{options.pods:,} pods, {options.nodes:,} nodes of {DEVICES} devices")
    print(f"{'':>12} {'pods a second':>14} {'CPU µs':>10} {'deciding, µs':>12} {'first, ms':>10}")
    for scenario in options.scenario:
        if options.profile:
            cProfile.runctx("measure(scenario, options)", globals(), locals(), options.profile)
        else:
            measure(scenario, options)


if __name__ == "__main__":
    main()
