"""Pod groups: how long it takes to decide about a gang, and what gangs cost beside the same pods without groups.

    python benchmarks/groups.py [--nodes 5000] [--pods 1000] [--racks 40] [--cpu 100m] [--rounds 3]
    python benchmarks/groups.py --gates [--nodes 5000] [--pods 1000] [--rounds 3]
    python benchmarks/groups.py --kubeconfig FILE [--gangs 200] [--size 50] [--nodes 1000] [--command COMMAND]

The first form is in process. "decided": the whole gang put on trial, once on all nodes and once in each of the racks;
nothing is placed. With `--cpu 1` no rack has room for 1,000 pods. "placed": `Cluster.schedule` with all that follows,
of the gang and of the same pods without a group.

The second form has what the gates cost pods of no group: calls (under cProfile) and CPU a pod with and without them, by
turns.

The third form needs an empty API server with no scheduler that serves PodGroups; the embedded one does, and a
kube-apiserver with --feature-gates=GenericWorkload=true,GangScheduling=true,TopologyAwareWorkloadScheduling=true and
--runtime-config=scheduling.k8s.io/v1alpha2=true. A scheduler's process is started when all pods are there: pods a
second between the 2nd and the 98th percentile of their bindings, and CPU of the scheduler's process in ms a pod, for
gangs and for the same pods without groups, by turns.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import gc
import logging
import pstats
import shlex
import statistics
import time
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any

import shapes
import storage_race as race

import stowplan
from stowplan.kube.api.decode import convert
from stowplan.kube.api.types import Namespace, Node, Pod, PodGroup
from stowplan.kube.config import ClientConnection
from stowplan.net.client.cluster_flags import ClusterFlags
from stowplan.net.client.http_api import HttpApi

if TYPE_CHECKING:
    from collections.abc import Iterator

RACK = "example.com/rack"
GATES = {"GenericWorkload": True, "TopologyAwareWorkloadScheduling": True}
_LONGEST = 600.0


def node(i: int, racks: int) -> dict[str, Any]:
    made = shapes.node(i)
    made["metadata"]["labels"][RACK] = f"rack-{i % racks:03d}"
    return made


def members(group: str, count: int, cpu: str = "100m") -> Iterator[dict[str, Any]]:
    """`group` of "": pods of no group."""
    spec = {"schedulingGroup": {"podGroupName": group}} if group else {}
    for i in range(count):
        made = shapes.pod(i, prefix=group or "p", **spec)
        (container,) = made["spec"]["containers"]
        container["resources"]["requests"]["cpu"] = container["resources"]["limits"]["cpu"] = cpu
        yield made


def pod_group(name: str, gang: int, *, topology: bool = False) -> dict[str, Any]:
    spec: dict[str, Any] = {"schedulingPolicy": {"gang": {"minCount": gang}}}
    if topology:
        spec["schedulingConstraints"] = {"topology": [{"key": RACK}]}
    metadata = {"name": name, "namespace": shapes.NAMESPACE}
    return {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "metadata": metadata, "spec": spec}


# -- in process -------------------------------------------------------------------------------------------------------


def cluster(options: argparse.Namespace, *, group: bool, topology: bool = False) -> stowplan.Cluster:
    objects = [node(i, options.racks) for i in range(options.nodes)]
    objects += members("gang" if group else "", options.pods, options.cpu)
    objects += [pod_group("gang", options.pods, topology=topology)] if group else []
    return stowplan.Cluster(objects, feature_gates=GATES if group else None)


def decided(options: argparse.Namespace, *, topology: bool) -> float:
    """Seconds for one trial of the gang, everywhere or in each rack."""
    made = cluster(options, group=True, topology=topology)
    with made.engine.asking_about_group(f"{shapes.NAMESPACE}/gang") as question:
        began = time.perf_counter()
        found = question.judgement()
        took = time.perf_counter() - began
    fitting = max(len(domain.placed) for domain in found.domains)
    domains = len(found.domains)
    assert domains == (options.racks if topology else 1), domains
    assert topology or fitting == options.pods, fitting
    return took


def placed(options: argparse.Namespace, *, group: bool) -> float:
    """Pods a second."""
    made = cluster(options, group=group)
    began = time.perf_counter()
    decisions = made.schedule()
    took = time.perf_counter() - began
    assert sum(bool(decision.node_name) for decision in decisions) == options.pods
    return options.pods / took


def in_process(options: argparse.Namespace) -> None:
    rounds = range(options.rounds)
    whole = statistics.median(decided(options, topology=False) for _ in rounds)
    racks = statistics.median(decided(options, topology=True) for _ in rounds)
    pairs = [(placed(options, group=True), placed(options, group=False)) for _ in rounds]
    print(f"a gang of {options.pods:,} on {options.nodes:,} nodes")
    print(f"{'decided, s':>28} {whole:10.3f}")
    print(f"{f'decided in {options.racks} racks, s':>28} {racks:10.3f}")
    print(f"{'placed, pods/s':>28} {statistics.median(gang for gang, _ in pairs):10,.0f}")
    print(f"{'without a group, pods/s':>28} {statistics.median(plain for _, plain in pairs):10,.0f}")
    print(f"{'share':>28} {statistics.median(gang / plain for gang, plain in pairs):10.2f}")


def plain(options: argparse.Namespace, *, gates: bool, profile: cProfile.Profile | None = None) -> float:
    """CPU, in µs a pod, of scheduling pods of no group."""
    objects = [node(i, options.racks) for i in range(options.nodes)]
    made = stowplan.Cluster([*objects, *members("", options.pods)], feature_gates=GATES if gates else None)
    gc.collect()
    began = time.process_time()
    with profile or nullcontext():
        decisions = made.schedule()
    took = time.process_time() - began
    assert all(decision.node_name for decision in decisions)
    return 1e6 * took / options.pods


def calls(options: argparse.Namespace, *, gates: bool) -> float:
    """Calls a pod; the same in every run."""
    profile = cProfile.Profile()
    plain(options, gates=gates, profile=profile)
    total: int = pstats.Stats(profile).total_calls  # type: ignore[attr-defined]
    return total / options.pods


def with_gates(options: argparse.Namespace) -> None:
    pairs = [(plain(options, gates=True), plain(options, gates=False)) for _ in range(options.rounds)]
    on, off = (statistics.median(side) for side in zip(*pairs, strict=True))
    print(f"{options.pods:,} pods of no group on {options.nodes:,} nodes")
    print(f"{'':>14} {'gates on':>10} {'off':>10}")
    print(f"{'calls a pod':>14} {calls(options, gates=True):10,.1f} {calls(options, gates=False):10,.1f}")
    print(f"{'CPU, µs a pod':>14} {on:10,.0f} {off:10,.0f}")
    print(f"{'on : off':>14} {statistics.median(one / other for one, other in pairs):10.3f}")


# -- on an API server -------------------------------------------------------------------------------------------------


async def fill(api: HttpApi, options: argparse.Namespace, *, groups: bool) -> None:
    await race.side_by_side(api.create(convert(node(i, options.racks), Node)) for i in range(options.nodes))
    # A kube-apiserver's nodes begin with a taint that nobody takes away there.
    free = {"spec": {"taints": None}}
    names = [shapes.node(i)["metadata"]["name"] for i in range(options.nodes)]
    await race.side_by_side(api.patch(Node, name, free, type_="merge", namespace="") for name in names)
    gangs = [f"gang-{number:04d}" for number in range(options.gangs)]
    if groups:
        await race.side_by_side(api.create(convert(pod_group(name, options.size), PodGroup)) for name in gangs)
    pods = [pod for name in gangs for pod in _of(name, options.size, groups=groups)]
    await race.side_by_side(api.create(convert(pod, Pod)) for pod in pods)


def _of(name: str, size: int, *, groups: bool) -> Iterator[dict[str, Any]]:
    for pod in members(name, size):
        if not groups:
            del pod["spec"]["schedulingGroup"]
        yield pod


async def wipe(api: HttpApi) -> None:
    for kind in (Pod, PodGroup, Node):
        found = (await api.list(kind)).items
        await race.side_by_side(_removed(api, kind, obj) for obj in found)


async def _removed(api: HttpApi, kind: type[Any], obj: Any) -> None:
    namespace, name = obj.metadata.namespace, obj.metadata.name
    if obj.metadata.finalizers:
        await api.patch(kind, name, {"metadata": {"finalizers": None}}, type_="merge", namespace=namespace)
    await api.delete(kind, name, namespace=namespace, grace_period_seconds=0)


async def scheduled(api: HttpApi, pods: int, command: str) -> tuple[float, float]:
    """(pods a second, CPU ms a pod) of a scheduler."""
    times: list[float] = []
    first_bound = asyncio.Event()
    watching = asyncio.create_task(race.bindings(api, pods, times, first_bound))
    await asyncio.sleep(0.5)
    quiet = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(*shlex.split(command), stdout=quiet, stderr=quiet)
    try:
        await first_bound.wait()
        first, began = len(times), race.cpu_of(process.pid)
        await asyncio.wait_for(watching, _LONGEST)
        cpu = race.cpu_of(process.pid) - began
    finally:
        process.terminate()
        await process.wait()
    return race.rate(times), 1e3 * cpu / max(1, pods - first)


async def on_a_server(options: argparse.Namespace) -> None:
    connection = ClusterFlags(kubeconfig=options.kubeconfig).connect()
    command = options.command.replace("{kubeconfig}", options.kubeconfig)
    async with HttpApi.open(connection, client_settings=ClientConnection(qps=-1), agent="benchmark") as api:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": shapes.NAMESPACE}}
        with suppress(Exception):  # it may be there
            await api.create(convert(namespace, Namespace))
        print(f"{options.gangs:,} gangs of {options.size:,} on {options.nodes:,} nodes")
        print(f"{'':>8} {'gangs, pods/s':>14} {'CPU, ms':>8} {'plain, pods/s':>14} {'CPU, ms':>8} {'share':>6}")
        for number in range(options.rounds):
            found: list[float] = []
            for groups in (True, False):
                await wipe(api)
                await fill(api, options, groups=groups)
                found += await scheduled(api, options.gangs * options.size, command)
            gang, gang_cpu, plain, plain_cpu = found
            share = gang / plain
            print(
                f"{number + 1:>8} {gang:14,.0f} {gang_cpu:8.2f} {plain:14,.0f} {plain_cpu:8.2f} {share:6.2f}",
                flush=True,
            )
        await wipe(api)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=1000, help="of the gang, in process")
    parser.add_argument("--racks", type=int, default=40)
    parser.add_argument("--cpu", default="100m", help="that each pod of the gang requests, in process")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--gates", action="store_true", help="what the gates cost pods of no group, in process")
    parser.add_argument("--kubeconfig", help="of an API server that serves PodGroups; without it, in process")
    parser.add_argument("--gangs", type=int, default=200)
    parser.add_argument("--size", type=int, default=50, help="pods of each gang, on a server")
    gates = ",".join(f"{name}=true" for name in GATES)
    parser.add_argument("--command", default=f"{race.COMMAND} --feature-gates={gates}", help="how the scheduler starts")
    options = parser.parse_args()
    logging.disable(logging.ERROR)
    with suppress(KeyboardInterrupt):
        if options.gates:
            with_gates(options)
        elif options.kubeconfig:
            asyncio.run(on_a_server(options))
        else:
            in_process(options)


if __name__ == "__main__":
    main()
