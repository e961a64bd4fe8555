"""Pods with volumes, placed by a scheduler's process on an API server.

    python benchmarks/storage_race.py --kubeconfig FILE [--pods 1000] [--nodes 5000] [--volumes 5000]
                                      [--scenario plain csi migrated wffc] [--rounds 1] [--command COMMAND]

The cluster of `storage.py`, made on the API server that the kubeconfig names: an empty one with no scheduler, no
volume controller, and no admission that taints new nodes (`--disable-admission-plugins=TaintNodesByCondition`). The
scheduler is started when all of it is there. Of claims that wait for their pod (wffc), this process makes the volume
and binds it as soon as a node is named, as a provisioner that takes no time. "plain": the same pods and volumes, but no
pod has a claim.

"bound": pods a second between the 2nd and the 98th percentile of their bindings; "CPU": of the scheduler's process
from the first binding to the last, in ms a pod. "floor": what this process alone binds a second, without scheduling;
for wffc with the writes that each claim needs. No scheduler here could be faster by much. Both are measured in turn,
`--rounds` times; "ratio" is of the same round, so what else the machine does matters less. "load": of the last minute.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shlex
import sys
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import storage

from stowplan.kube.api.decode import convert
from stowplan.kube.api.types import (
    CSINode,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    StorageClass,
)
from stowplan.kube.config import ClientConnection
from stowplan.net.client.cluster_flags import ClusterFlags
from stowplan.net.client.http_api import HttpApi

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Iterable

SCENARIOS = ("plain", "csi", "migrated", "wffc")
COMMAND = (
    f"{sys.executable} -m stowplan.app.cli.kube_scheduler --kubeconfig={{kubeconfig}} --leader-elect=false"
    " --secure-port=0 --kube-api-qps=5000 --kube-api-burst=10000"
)
SELECTED = "volume.kubernetes.io/selected-node"
NAMESPACE = "default"
#: In the order in which they can be deleted.
KINDS = (Pod, PersistentVolumeClaim, PersistentVolume, CSINode, StorageClass, Node)
_AT_ONCE = 48
_LONGEST = 300.0


async def side_by_side(jobs: Iterable[Coroutine[Any, Any, Any]]) -> None:
    queue = iter(jobs)

    async def worker() -> None:
        for job in queue:
            await job

    await asyncio.gather(*(worker() for _ in range(_AT_ONCE)))


async def fill(api: HttpApi, world: storage.World, missing_only: bool = False) -> None:
    there = {(kind, obj.metadata.name) for kind in KINDS if missing_only for obj in (await api.list(kind)).items}
    await side_by_side(api.create(obj) for obj in world.objects() if (type(obj), obj.metadata.name) not in there)
    await side_by_side(api.create(write.obj) for _, write in world.pods())


async def wipe(api: HttpApi, *, pods_only: bool = False) -> None:
    """Delete everything, or the pods with the claims and volumes that they brought."""

    async def remove(obj: Any) -> None:
        kind, name = type(obj), obj.metadata.name
        if obj.metadata.finalizers:
            await _patch(api, kind, name, {"metadata": {"finalizers": None}})
        await api.delete(kind, name, namespace=obj.metadata.namespace, grace_period_seconds=0)

    for kind in KINDS[:3] if pods_only else KINDS:
        found = (await api.list(kind)).items
        await side_by_side(remove(obj) for obj in found if not (pods_only and "there-" in obj.metadata.name))


async def _patch(api: HttpApi, kind: type[Any], name: str, patch: dict[str, Any]) -> None:
    namespace = NAMESPACE if kind in (Pod, PersistentVolumeClaim) else ""
    await api.patch(kind, name, patch, type_="merge", namespace=namespace)


# -- what a provisioner and the volume controller do ------------------------------------------------------------------


async def make_volume(api: HttpApi, claim: PersistentVolumeClaim, zone: str) -> None:
    name = claim.metadata.name
    made = storage.volume(f"pv-{name}", claim=name, uid=claim.metadata.uid, on={storage.ZONE: zone})
    await api.create(convert(made, PersistentVolume))
    done = {"metadata": {"annotations": {storage.COMPLETED: "yes"}}, "spec": {"volumeName": f"pv-{name}"}}
    await _patch(api, PersistentVolumeClaim, name, done)


async def provision(api: HttpApi, zones: dict[str, str]) -> None:
    """Until it is cancelled."""
    seen = set()
    under_way: set[asyncio.Task[None]] = set()
    async for claim in _news(api, PersistentVolumeClaim):
        node = claim.metadata.annotations.get(SELECTED)
        if node and not claim.spec.volume_name and claim.metadata.name not in seen:
            seen.add(claim.metadata.name)
            task = asyncio.create_task(make_volume(api, claim, zones[node]))
            under_way.add(task)
            task.add_done_callback(under_way.discard)


async def _news(api: HttpApi, kind: type[Any]) -> AsyncIterator[Any]:
    version = (await api.list(kind, limit=1)).resource_version
    async for event in api.watch(kind, resource_version=version, timeout_seconds=3600):
        if event.object is not None:
            yield event.object


# -- the race --------------------------------------------------------------------------------------------------------


async def bindings(api: HttpApi, number: int, times: list[float], first: asyncio.Event) -> None:
    bound = set()
    async for pod in _news(api, Pod):
        if pod.spec.node_name and pod.metadata.name not in bound:
            bound.add(pod.metadata.name)
            times.append(time.perf_counter())
            first.set()
            if len(times) == number:
                return


def rate(times: list[float]) -> float:
    low, high = int(len(times) * 0.02), max(int(len(times) * 0.98) - 1, 0)
    return (high - low) / max(times[high] - times[low], 1e-9) if high > low else 0.0


def cpu_of(pid: int) -> float:
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def scheduled(api: HttpApi, world: storage.World, command: str) -> tuple[float, float]:
    """(pods a second, CPU ms a pod) of a scheduler."""
    times: list[float] = []
    zones = {node.metadata.name: node.metadata.labels[storage.ZONE] for node in (await api.list(Node)).items}
    first_bound = asyncio.Event()
    watching = asyncio.create_task(bindings(api, world.options.pods, times, first_bound))
    provisioning = asyncio.create_task(provision(api, zones))
    await asyncio.sleep(0.5)
    quiet = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(*shlex.split(command), stdout=quiet, stderr=quiet)
    try:
        await first_bound.wait()
        first, began = len(times), cpu_of(process.pid)
        await asyncio.wait_for(watching, _LONGEST)
        cpu = cpu_of(process.pid) - began
    finally:
        provisioning.cancel()
        process.terminate()
        await process.wait()
    return rate(times), 1e3 * cpu / max(1, world.options.pods - first)


async def floor(api: HttpApi, world: storage.World) -> float:
    """Pods a second that are bound without scheduling."""
    began = time.perf_counter()
    pods = (await api.list(Pod)).items

    async def one(pod: Pod, i: int) -> None:
        node = f"node-{i % world.options.nodes:05d}"
        if world.scenario == "wffc":
            name = f"c-{i}"
            await _patch(api, PersistentVolumeClaim, name, {"metadata": {"annotations": {SELECTED: node}}})
            await make_volume(api, await api.get(PersistentVolumeClaim, name, namespace=NAMESPACE), f"zone{i % 3}")
        await api.bind(namespace=NAMESPACE, name=pod.metadata.name, uid=pod.metadata.uid, node=node)

    await side_by_side(one(pod, i) for i, pod in enumerate(pods))
    return len(pods) / (time.perf_counter() - began)


async def run(options: argparse.Namespace) -> None:
    connection = ClusterFlags(kubeconfig=options.kubeconfig).connect()
    async with HttpApi.open(connection, client_settings=ClientConnection(qps=-1), agent="benchmark") as api:
        print(f"{'':>10} {'floor, pods/s':>14} {'bound, pods/s':>14} {'ratio':>6} {'CPU, ms':>9} {'load':>6}")
        command = options.command.replace("{kubeconfig}", options.kubeconfig)
        for scenario in options.scenario:
            world = partial(storage.World, scenario, options)
            await fill(api, world())
            if (await api.list(Node, limit=1)).items[0].spec.taints:
                raise SystemExit("new nodes are tainted here: start the API server without TaintNodesByCondition")
            for _ in range(options.rounds):
                limit = await floor(api, world())
                await wipe(api, pods_only=True)
                await fill(api, world(), missing_only=True)
                bound, cpu = await scheduled(api, world(), command)
                await wipe(api, pods_only=True)
                await fill(api, world(), missing_only=True)
                load = os.getloadavg()[0]
                print(
                    f"{scenario:>10} {limit:14,.0f} {bound:14,.0f} {bound / limit:6.2f} {cpu:9.2f} {load:6.1f}",
                    flush=True,
                )
            await wipe(api)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--pods", type=int, default=1000)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--volumes", type=int, default=5000, help="that are there before, each bound to a claim")
    parser.add_argument("--scenario", nargs="+", default=list(SCENARIOS), choices=SCENARIOS)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--command", default=COMMAND, help="how the scheduler is started")
    parser.set_defaults(rate=1.0, seed=1)
    with suppress(KeyboardInterrupt):
        asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
