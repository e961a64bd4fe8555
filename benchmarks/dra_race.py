"""Pods with claims for one GPU each, placed by a scheduler's process on an API server.

    python benchmarks/dra_race.py --kubeconfig FILE [--pods 1000] [--nodes 500] [--beside] [--command COMMAND]

The cluster of `dra.py` (eight GPUs per node, a slice and pool per node, a claim per pod), made on the API server that
the kubeconfig names: an empty one without a scheduler. Pods name their claims, so nobody has to make any. The scheduler
is started when all of it is there. What is printed is what `storage_race.py` prints: "floor" is what this process alone
binds a second, with the two writes that each claim needs.

`--beside`: the same once more with a pod whose claim cannot be found out about in time (constraints that contradict
each other, over the devices of one node more).
"""

from __future__ import annotations

import argparse
import asyncio
import shlex
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import dra
from storage_race import COMMAND, NAMESPACE, bindings, cpu_of, rate, side_by_side

from stowplan.kube.api.decode import convert, to_dict
from stowplan.kube.api.types import DeviceClass, Node, Pod, ResourceClaim, ResourceSlice
from stowplan.kube.config import ClientConnection
from stowplan.net.client.cluster_flags import ClusterFlags
from stowplan.net.client.http_api import HttpApi

if TYPE_CHECKING:
    from collections.abc import Iterator

FINALIZER = "resource.kubernetes.io/delete-protection"
_LONGEST = 600.0


class World(dra.World):
    def objects(self) -> Iterator[Any]:
        for obj in super().objects():
            if isinstance(obj, ResourceClaim):
                spec = to_dict(obj.spec)
                yield convert(dra.of("ResourceClaim", obj.metadata.name, spec) | _in(obj.metadata.name), ResourceClaim)
            else:
                yield obj

    def pods(self) -> Iterator[Pod]:
        for i in range(self.options.pods):
            pod = self.pod(i)
            pod["metadata"].pop("uid")
            pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": f"c-{i}"}]
            pod.pop("status", None)
            yield convert(pod, Pod)


def _in(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": NAMESPACE}}


def hopeless(world: World) -> Iterator[Any]:
    """A pod with a claim that nobody can find out about in time, and a node with the devices that it is about."""
    devices = [
        {
            "name": f"odd-{i}",
            "attributes": {
                "a": {"int": i % 16},
                "b": {"int": i // 16 + i % 7},
                "serial": {"int": i},
                "odd": {"bool": True},
            },
        }
        for i in range(64)
    ]
    pool = {"name": "odd", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": dra.DRIVER, "pool": pool, "nodeName": "node-00000", "devices": devices}
    yield convert(dra.of("ResourceSlice", "odd", spec), ResourceSlice)
    odd = f'"odd" in device.attributes["{dra.DRIVER}"]'
    requests = dra.exactly(*(dra.request(name, count=5, selector=odd) for name in ("r", "q", "s")))
    constraints = [
        {"requests": ["r"], "matchAttribute": f"{dra.DRIVER}/b"},
        {"requests": ["q"], "matchAttribute": f"{dra.DRIVER}/a"},
        {"requests": [], "distinctAttribute": f"{dra.DRIVER}/serial"},
    ]
    claim = dra.of("ResourceClaim", "odd", {"devices": {"requests": requests, "constraints": constraints}})
    yield convert(claim | _in("odd"), ResourceClaim)
    pod = world.pod(0)
    pod["metadata"] = {"name": "odd", "namespace": NAMESPACE, "labels": {"odd": "yes"}}
    pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "odd"}]
    pod["spec"]["priority"] = None
    pod.pop("status", None)
    yield convert(pod, Pod)


async def fill(api: HttpApi, world: World) -> None:
    await side_by_side(api.create(obj) for obj in world.objects())
    await side_by_side(api.create(pod) for pod in world.pods())


async def wipe(api: HttpApi) -> None:
    async def gone(kind: type[Any], obj: Any) -> None:
        name, namespace = obj.metadata.name, obj.metadata.namespace
        if obj.metadata.finalizers:
            nobody = {"metadata": {"finalizers": None}}
            await api.patch(kind, name, nobody, type_="merge", namespace=namespace)
        await api.delete(kind, name, namespace=namespace, grace_period_seconds=0)

    for kind in (Pod, ResourceClaim, ResourceSlice, DeviceClass, Node):
        await side_by_side(gone(kind, obj) for obj in (await api.list(kind)).items)


async def floor(api: HttpApi, world: World) -> float:
    """Pods a second whose claims are written and that are bound, without scheduling."""
    pods = (await api.list(Pod)).items
    began = time.perf_counter()

    async def one(pod: Pod, i: int) -> None:
        node, claim = f"node-{i % world.options.nodes:05d}", pod.spec.resource_claims[0].resource_claim_name or ""
        device = f"gpu-{i // world.options.nodes % dra.DEVICES}"
        held = {"metadata": {"finalizers": [FINALIZER]}}
        await api.patch(ResourceClaim, claim, held, type_="merge", namespace=NAMESPACE)
        results = [{"request": "gpu", "driver": dra.DRIVER, "pool": node, "device": device}]
        user = {"resource": "pods", "name": pod.metadata.name, "uid": pod.metadata.uid}
        status = {"allocation": {"devices": {"results": results}}, "reservedFor": [user]}
        await api.patch(
            ResourceClaim, claim, {"status": status}, type_="merge", namespace=NAMESPACE, subresource="status"
        )
        await api.bind(namespace=NAMESPACE, name=pod.metadata.name, uid=pod.metadata.uid, node=node)

    await side_by_side(one(pod, i) for i, pod in enumerate(pods))
    return len(pods) / (time.perf_counter() - began)


async def scheduled(api: HttpApi, number: int, command: str) -> tuple[float, float]:
    """(pods a second, CPU ms a pod) of a scheduler."""
    times: list[float] = []
    first_bound = asyncio.Event()
    watching = asyncio.create_task(bindings(api, number, times, first_bound))
    await asyncio.sleep(0.5)
    quiet = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(*shlex.split(command), stdout=quiet, stderr=quiet)
    try:
        await asyncio.wait_for(first_bound.wait(), _LONGEST)
        first, began = len(times), cpu_of(process.pid)
        await asyncio.wait_for(watching, _LONGEST)
        cpu = cpu_of(process.pid) - began
    finally:
        process.terminate()
        await process.wait()
    return rate(times), 1e3 * cpu / max(1, number - first)


async def run(options: argparse.Namespace) -> None:
    connection = ClusterFlags(kubeconfig=options.kubeconfig).connect()
    command = options.command.replace("{kubeconfig}", options.kubeconfig)
    world = World("gpu", options)
    async with HttpApi.open(connection, client_settings=ClientConnection(qps=-1), agent="benchmark") as api:
        await wipe(api)
        await fill(api, world)
        print(f"floor {await floor(api, world):10,.0f} pods/s", flush=True)
        for beside in (False, True) if options.beside else (False,):
            await wipe(api)
            await fill(api, world)
            if beside:
                for obj in hopeless(world):
                    await api.create(obj)
            bound, cpu = await scheduled(api, options.pods, command)
            print(f"{'beside' if beside else 'bound':5} {bound:10,.0f} pods/s {cpu:8.2f} ms of CPU a pod", flush=True)
        await wipe(api)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--pods", type=int, default=1000)
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--beside", action="store_true", help="race once more beside a claim that takes very long")
    parser.add_argument("--command", default=COMMAND, help="how the scheduler is started")
    parser.set_defaults(rate=1.0, seed=1, distinct=False)
    with suppress(KeyboardInterrupt):
        asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
