"""Streams of events beside pods that fit nowhere yet: how many attempts does a scheduler make for each binding?

    python benchmarks/event_streams.py [node-updates] [pod-deletes] [unschedulable] [--nodes 100] [--rounds 1]
                                       [--kubeconfig FILE] [--command NAME=COMMAND ...]

The form of scheduler_perf's rows EventHandlingNodeUpdate, EventHandlingPodDelete (without its volumes) and
Unschedulable. A scheduler runs as a process of its own on an API server: the embedded one, or an empty one that the
kubeconfig names. Pods are created and tried once; then 100 events a second open room for some of them, and wake all
that it might help. `--command` names other schedulers; each row runs with one after the other, `--rounds` times.

A line is a row of one scheduler: bound pods/s from the first event (of "unschedulable": from the first pod) to the last
binding, CPU of the scheduler in that time, attempts by result since its start, how many pods were popped from backoff,
and the writes that it sent. The failed attempts include one of each pod before the first event.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import shlex
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import msgspec
from apiserver import Client
from steady import Process, embedded

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    Object = dict[str, Any]

FLAGS = (
    " --kubeconfig={kubeconfig} --leader-elect=false --kube-api-qps=5000 --kube-api-burst=5000"
    " --secure-port={port} --bind-address=127.0.0.1 --authorization-always-allow-paths=/metrics"
    " --authentication-tolerate-lookup-failure=true --cert-dir={folder}"
)
OURS = f"stowplan={sys.executable} -m stowplan.app.cli.kube_scheduler"
EVENTS_PER_SECOND = 100
HOST = "kubernetes.io/hostname"
IMAGE = "registry.k8s.io/pause:3.10"
LONGEST = 300.0
WIDTH = 32
LINE = "{:>14} {:>12} {:>8} {:>9} {:>10} {:>8} {:>8} {:>8} {:>8}"


# -- objects ----------------------------------------------------------------------------------------------------------


def node(name: str, *, cpu: str = "4", memory: str = "32Gi", labels: Object | None = None, **spec: Any) -> Object:
    size = {"cpu": cpu, "memory": memory, "pods": "3000"}
    status = {"capacity": size, "allocatable": size, "conditions": [{"type": "Ready", "status": "True"}]}
    metadata = {"name": name, "labels": {HOST: name, **(labels or {})}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec, "status": status}


def taint(key: str) -> Object:
    return {"key": key, "effect": "NoSchedule"}


def pod(name: str, *, labels: Object | None = None, tolerates: str = "", **rest: Any) -> Object:
    container = {"name": "pause", "image": IMAGE}
    for field in ("resources", "ports"):
        if field in rest:
            container[field] = rest.pop(field)
    if tolerates:
        rest["tolerations"] = [{"key": tolerates, "operator": "Exists", "effect": "NoSchedule"}]
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0, **rest}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels or {}}, "spec": spec}


def requests(cpu: str, memory: str) -> Object:
    return {"requests": {"cpu": cpu, "memory": memory}}


def spread(key: str, labels: Object, *, max_skew: int, min_domains: int) -> list[Object]:
    rule = {"topologyKey": key, "maxSkew": max_skew, "minDomains": min_domains, "whenUnsatisfiable": "DoNotSchedule"}
    return [{**rule, "labelSelector": {"matchLabels": labels}}]


def pod_affinity(kind: str, labels: Object, key: str, **term: Any) -> Object:
    found = {"labelSelector": {"matchLabels": labels}, "topologyKey": key, **term}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [found]}}


def node_affinity(key: str, value: str) -> Object:
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


# -- the cluster ------------------------------------------------------------------------------------------------------


class Watched(msgspec.Struct, rename="camel"):
    name: str = ""
    resource_version: str = ""


class Condition(msgspec.Struct):
    type: str = ""
    status: str = ""


class Spec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str = ""


class Status(msgspec.Struct, frozen=True):
    conditions: tuple[Condition, ...] = ()


class WatchedPod(msgspec.Struct):
    metadata: Watched
    spec: Spec = Spec()
    status: Status = Status()


class Listed(msgspec.Struct):
    metadata: Watched
    items: list[WatchedPod]


class Change(msgspec.Struct):
    type: str
    object: WatchedPod


class Cluster:
    """An API server with a watch on its pods."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self.namespace = namespace
        self.pods = f"/api/v1/namespaces/{namespace}/pods"
        self.bound: set[str] = set()
        self.tried: set[str] = set()
        self._changed = asyncio.Event()

    async def listen(self) -> None:
        """Also after the server has ended the watch, as it does with one that is too slow for it."""
        decode = msgspec.json.Decoder(Change).decode
        while True:
            listed = msgspec.json.decode(await self._client.call("GET", self.pods), type=Listed)
            for one in listed.items:
                self._heard(one)
            url = f"{self._client.base}{self.pods}?watch=1&resourceVersion={listed.metadata.resource_version}"
            async with self._client.session.get(
                url, timeout=aiohttp.ClientTimeout(None), read_bufsize=1 << 22
            ) as answer:
                async for line in answer.content:
                    self._heard(decode(line).object)

    def _heard(self, found: WatchedPod) -> None:
        if found.spec.node_name:
            self.bound.add(found.metadata.name)
        if any(c.type == "PodScheduled" for c in found.status.conditions) or found.spec.node_name:
            self.tried.add(found.metadata.name)
        self._changed.set()

    async def until(self, done: Callable[[], bool]) -> None:
        async with asyncio.timeout(LONGEST):
            while not done():
                self._changed.clear()
                await self._changed.wait()

    async def create_nodes(self, nodes: list[Object]) -> None:
        await self._client.call_all((("POST", "/api/v1/nodes", one) for one in nodes), width=WIDTH)

    async def create_pods(self, pods: list[Object]) -> set[str]:
        await self._client.call_all((("POST", self.pods, one) for one in pods), width=WIDTH)
        return {one["metadata"]["name"] for one in pods}

    async def create_and_try(self, pods: list[Object]) -> set[str]:
        names = await self.create_pods(pods)
        await self.until(lambda: names <= self.tried)
        return names

    async def update_node(self, new: Object) -> None:
        path = f"/api/v1/nodes/{new['metadata']['name']}"
        await self._client.call("PUT", path, new)
        await self._client.call("PUT", f"{path}/status", new)

    async def delete_pod(self, name: str) -> None:
        await self._client.call("DELETE", f"{self.pods}/{name}?gracePeriodSeconds=0")

    async def until_bound(self, names: set[str]) -> None:
        await self.until(lambda: names <= self.bound)


async def paced(items: list[Any], per_second: float = EVENTS_PER_SECOND) -> AsyncIterator[Any]:
    begun = time.monotonic()
    for i, item in enumerate(items):
        await asyncio.sleep(max(0.0, begun + i / per_second - time.monotonic()))
        yield item


# -- rows -------------------------------------------------------------------------------------------------------------


class Row:
    """Runs a row; `measured` is what counts of it."""

    def __init__(self, cluster: Cluster, process: Process) -> None:
        self.cluster = cluster
        self.process = process
        self.bound, self.seconds, self.cpu = 0, 0.0, 0.0

    @contextmanager
    def measured(self, pods: int) -> Iterator[None]:
        began, cpu = time.monotonic(), self.process.cpu()
        yield
        self.bound += pods
        self.seconds += time.monotonic() - began
        self.cpu += self.process.cpu() - cpu

    async def updates(self, before: list[Object], pods: list[Object], after: list[Object]) -> None:
        """Nodes that refuse the pods, the pods, and updates of the nodes that let them in."""
        await self.cluster.create_nodes(before)
        names = await self.cluster.create_and_try(pods)
        with self.measured(len(pods)):
            async for new in paced(after):
                await self.cluster.update_node(new)
            await self.cluster.until_bound(names)


async def node_updates(row: Row, nodes: int) -> None:
    """Each of four kinds of nodes keeps pods out in another way, until it is updated."""
    pods, closed = range(10 * nodes), [taint("allow")]

    def kind(prefix: str, **fields: Any) -> list[Object]:
        return [node(f"{prefix}-{i:05d}", **fields) for i in range(nodes)]

    await row.updates(
        kind("unschedulable", taints=closed, unschedulable=True),
        [pod(f"unschedulable-{i}", tolerates="allow") for i in pods],
        kind("unschedulable", taints=closed),
    )
    small = [taint("allow-resources")]
    await row.updates(
        kind("small", cpu="0.0001", memory="1Mi", taints=small),
        [pod(f"resources-{i}", tolerates="allow-resources", resources=requests("0.35", "3Gi")) for i in pods],
        kind("small", taints=small),
    )
    zone, green, blue = "topology.kubernetes.io/zone", {"color": "green"}, {"color": "blue"}
    affinity = pod_affinity("podAffinity", green, zone)
    even = spread("topology", blue, max_skew=1, min_domains=1)
    await row.updates(
        kind("bare", taints=closed),
        [
            *(
                pod(f"affinity-{i}", tolerates="allow", labels=green, affinity={"podAffinity": affinity["podAffinity"]})
                for i in pods
            ),
            *(pod(f"selector-{i}", tolerates="allow", affinity=node_affinity("affinity", "allow")) for i in pods),
            *(pod(f"spread-{i}", tolerates="allow", labels=blue, topologySpreadConstraints=even) for i in pods),
        ],
        kind("bare", taints=closed, labels={zone: "zone1", "affinity": "allow", "topology": "allow"}),
    )
    await row.updates(
        kind("tainted", taints=closed),
        [pod(f"taint-{i}", tolerates=f"toleration-{i // 10}") for i in pods],
        [node(f"tainted-{i:05d}", taints=[taint(f"toleration-{i}")]) for i in range(nodes)],
    )


async def pod_deletes(row: Row, nodes: int) -> None:
    """Two kinds of pods fill the nodes in different ways; as they are deleted, those that they kept out follow."""
    cluster, blue, green = row.cluster, {"topology": "blue"}, {"color": "green"}
    blockers, pods = range(10 * nodes - nodes // 2), range(10 * nodes)
    await cluster.create_nodes([node(f"full-{i:05d}") for i in range(nodes)])

    def ports(i: int) -> list[Object]:
        return [{"hostPort": 8000 + i % 12, "containerPort": 80}]

    tight = spread(HOST, blue, max_skew=10, min_domains=10_000)
    loose = spread(HOST, blue, max_skew=11, min_domains=10_000)
    large = {"resources": requests("0.35", "3Gi"), "topologySpreadConstraints": tight}
    first = [pod(f"blocker-{i}", labels=blue, ports=ports(i), **large) for i in blockers]
    second = [pod(f"green-{i}", labels=green) for i in blockers]
    names = await cluster.create_pods([*first, *second])
    await cluster.until_bound(names)
    apart = {"podAntiAffinity": pod_affinity("podAntiAffinity", green, HOST)["podAntiAffinity"]}
    waiting = [
        *(pod(f"spread-{i}", labels=blue, topologySpreadConstraints=loose) for i in pods),
        *(pod(f"ports-{i}", ports=ports(i)) for i in pods),
        *(pod(f"resources-{i}", resources=requests("0.2", "1Gi")) for i in pods),
        *(pod(f"apart-{i}", affinity=apart) for i in pods),
    ]
    names = await cluster.create_and_try(waiting)
    with row.measured(len(waiting)):
        async for one in paced([*first, *second]):
            await cluster.delete_pod(one["metadata"]["name"])
        await cluster.until_bound(names)


async def unschedulable(row: Row, nodes: int) -> None:
    """Pods that fit, while five a second come that are too large for every node and more important."""
    cluster = row.cluster
    await cluster.create_nodes([node(f"plain-{i:05d}") for i in range(nodes)])
    pods = [pod(f"plain-{i}", resources=requests("100m", "500Mi")) for i in range(10 * nodes)]

    async def churn() -> None:
        large = [pod(f"large-{i}", resources=requests("9", "500Mi")) for i in range(10_000)]
        async for one in paced(large, per_second=5):
            await cluster.create_pods([one])

    churning = asyncio.create_task(churn())
    with row.measured(len(pods)):
        await cluster.until_bound(await cluster.create_pods(pods))
    churning.cancel()


ROWS = {"node-updates": node_updates, "pod-deletes": pod_deletes, "unschedulable": unschedulable}


# -- a scheduler ------------------------------------------------------------------------------------------------------


@contextmanager
def scheduling(command: str, kubeconfig: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A scheduler's process, and the address of its metrics."""
    with socket.socket() as free, tempfile.TemporaryDirectory() as folder:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        filled = (command + FLAGS).format(kubeconfig=kubeconfig, port=port, folder=folder)
        with subprocess.Popen(shlex.split(filled), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            try:
                yield process, f"https://127.0.0.1:{port}/metrics"
            finally:
                process.terminate()


COUNTERS = "scheduler_schedule_attempts_total|scheduler_queue_incoming_pods_total|rest_client_requests_total"
SAMPLE = re.compile(rf"^({COUNTERS})\{{(.*)\}} ([0-9.e+]+)$", re.MULTILINE)


async def counts(url: str) -> Counter[str]:
    """What the scheduler counted: attempts by result, pops from backoff, requests by method."""
    unverified = ssl.create_default_context()
    unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
    async with aiohttp.ClientSession() as session, session.get(url, ssl=unverified) as answer:
        text = await answer.text()
    found: Counter[str] = Counter()
    for name, labels, value in SAMPLE.findall(text):
        label = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        if name.endswith("attempts_total"):
            found[label["result"]] += int(float(value))
        elif name.endswith("incoming_pods_total"):
            found[f"{label['queue']}/{label['event']}"] += int(float(value))
        else:
            found[label["method"]] += int(float(value))
    return found


async def run(name: str, who: str, command: str, kubeconfig: Path, options: argparse.Namespace) -> None:
    namespace = f"row-{time.time_ns() // 1_000_000}"
    async with Client(kubeconfig) as client:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        await client.call("POST", "/api/v1/namespaces", body)
        cluster = Cluster(client, namespace)
        listening = asyncio.create_task(cluster.listen())
        with scheduling(command, kubeconfig) as (process, url):
            row = Row(cluster, Process(process.pid))
            try:
                await ROWS[name](row, options.nodes)
                found = await counts(url)
            finally:
                listening.cancel()
                await client.call("DELETE", f"{cluster.pods}?gracePeriodSeconds=0")
                await client.call("DELETE", "/api/v1/nodes")
    figures = (
        f"{row.bound / row.seconds:.0f}",
        f"{1e3 * row.cpu / row.bound:.2f}",
        *(f"{found[counter]:,}" for counter in ("scheduled", "unschedulable", "active/PopFromBackoffQ", "PATCH")),
        f"{found['POST'] - found['scheduled']:,}",
    )
    print(LINE.format(name, who, *figures), flush=True)
    if options.causes:
        for cause, number in sorted(found.items()):
            print(f"{'':>28}{cause}: {number:,}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", default=list(ROWS), metavar="row")
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--kubeconfig", type=Path, help="another API server than the embedded one")
    parser.add_argument("--command", nargs="+", default=[OURS], metavar="NAME=COMMAND", help="schedulers to compare")
    parser.add_argument("--causes", action="store_true", help="also why pods came to each queue")
    options = parser.parse_args()
    header = ("row", "scheduler", "pods/s", "CPU ms", "scheduled", "failed", "backoff", "patches", "events")
    print(LINE.format(*header), flush=True)
    for _ in range(options.rounds):
        for name in options.rows:
            for one in options.command:
                who, command = one.split("=", 1)
                with ExitStack() as stack:
                    asyncio.run(run(name, who, command, options.kubeconfig or embedded(stack), options))


if __name__ == "__main__":
    main()
