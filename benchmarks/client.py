"""What the HTTP client costs: a first list, binds, events, the lines of a watch.

The server is the embedded one, a process of its own, loaded from a state file. Run it as

    python benchmarks/client.py [--pods 100000] [--binds 10000]

It speaks TLS, on the event loop that the scheduler has. CPU is this process's; the pods are those of `apiserver.py`,
1.7 KB each.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import apiserver as shapes
import uvloop

from stowplan.kube.api.types import Event, ObjectMeta, ObjectReference, Pod
from stowplan.kube.config import ClientConnection
from stowplan.kube.timing.times import REAL_TIMES
from stowplan.net.client.cluster_flags import ClusterFlags
from stowplan.net.client.http_api import HttpApi
from stowplan.net.client.list_watch import ListWatch
from stowplan_cluster.apiserver.api_server import ApiServer

NODES = 1000


def fill(state: Path, pods: int) -> None:
    server = ApiServer(state=state)
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": shapes.NAMESPACE}}
    server.create_all([namespace, *(shapes.pod(i) for i in range(pods))])
    server.close()


@contextmanager
def started(state: Path, kubeconfig: Path):
    command = [sys.executable, "-m", "stowplan", "apiserver", "--controllers="]
    command += [f"--kubeconfig-out={kubeconfig}", f"--state={state}"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            while not kubeconfig.exists():
                if process.poll() is not None:
                    raise SystemExit("the server did not start")
                time.sleep(0.05)
            yield
        finally:
            process.terminate()


async def longest_stall(seconds: float = 0.001) -> float:
    """How long the event loop had no time for others, until cancelled."""
    longest = 0.0
    try:
        while True:
            begin = time.perf_counter()
            await asyncio.sleep(seconds)
            longest = max(longest, time.perf_counter() - begin - seconds)
    except asyncio.CancelledError:
        return longest


async def first_list(api: HttpApi, pods: int) -> None:
    delivered = 0

    def deliver(changes):
        nonlocal delivered
        delivered += len(changes)

    listing = ListWatch(api, Pod, times=REAL_TIMES, report=print)
    stall, begin, cpu = asyncio.create_task(longest_stall()), time.perf_counter(), time.process_time()
    running = asyncio.create_task(listing.run(deliver))
    await listing.synced.wait()
    took, cpu = time.perf_counter() - begin, time.process_time() - cpu
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    stall.cancel()
    assert delivered == pods, f"{delivered} of {pods} pods"
    print(f"first list, s        {took:8.2f}   {pods} pods, {1e6 * cpu / pods:.0f} us of CPU each")
    print(f"longest stall, ms    {1e3 * await stall:8.0f}")


async def binds(api: HttpApi, count: int) -> None:
    pods = (await api.list(Pod, limit=count)).items
    queue = iter(enumerate(pods))

    async def worker():
        for i, pod in queue:
            metadata = pod.metadata
            await api.bind(
                namespace=metadata.namespace, name=metadata.name, uid=metadata.uid, node=f"node-{i % NODES:05d}"
            )

    begin, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(worker() for _ in range(48)))
    took, cpu = time.perf_counter() - begin, time.process_time() - cpu
    print(f"binds/s              {len(pods) / took:8.0f}   {1e6 * cpu / len(pods):.0f} us of CPU each")


async def events(api: HttpApi, count: int) -> None:
    """What a placed pod gets besides."""
    numbers = iter(range(count))

    async def worker():
        for i in numbers:
            await api.create(event(i), lane="event")

    begin, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(worker() for _ in range(16)))
    took, cpu = time.perf_counter() - begin, time.process_time() - cpu
    print(f"events/s             {count / took:8.0f}   {1e6 * cpu / count:.0f} us of CPU each")


def event(i: int) -> Event:
    name = f"pod-{i:06d}"
    uid = f"00000000-0000-0000-0000-{i:012d}"
    return Event(
        metadata=ObjectMeta(name=f"{name}.18a7f{i:x}", namespace=shapes.NAMESPACE),
        event_time="2027-07-07T07:07:07.070707Z",
        reporting_controller="default-scheduler",
        reporting_instance="default-scheduler-host",
        action="Binding",
        reason="Scheduled",
        type="Normal",
        regarding=ObjectReference(
            api_version="v1", kind="Pod", namespace=shapes.NAMESPACE, name=name, uid=uid, resource_version="1"
        ),
        note=f"Successfully assigned {shapes.NAMESPACE}/{name} to node-{i % NODES:05d}",
    )


async def watch(api: HttpApi, version: str, count: int) -> None:
    """Lines of the past, as fast as they come."""
    seen = 0
    begin, cpu = time.perf_counter(), time.process_time()
    stream = api.watch(Pod, resource_version=version)
    async for event in stream:
        seen += event.object is not None
        if seen == count:
            break
    took, cpu = time.perf_counter() - begin, time.process_time() - cpu
    await stream.aclose()
    print(f"watch lines/s        {count / took:8.0f}   {1e6 * cpu / count:.1f} us of CPU each")


async def bench(args, kubeconfig: Path) -> None:
    settings = ClientConnection(qps=-1)
    connection = ClusterFlags(kubeconfig=str(kubeconfig)).connect()
    async with HttpApi.open(connection, client_settings=settings, agent="benchmark") as api:
        await first_list(api, args.pods)
        gc.freeze()
        version = (await api.list(Pod, limit=1)).resource_version
        await binds(api, args.binds)
        await events(api, args.binds)
        await watch(api, version, args.binds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=100_000)
    parser.add_argument("--binds", type=int, default=10_000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        state, kubeconfig = Path(folder) / "state", Path(folder) / "kubeconfig"
        fill(state, args.pods)
        gc.collect()
        with started(state, kubeconfig):
            uvloop.run(bench(args, kubeconfig))


if __name__ == "__main__":
    main()
