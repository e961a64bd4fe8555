"""Several schedulers on one cluster, each for pods of its own: CPU per pod, and nodes that were promised twice.

    python benchmarks/partitions.py [--nodes 1000] [--pods 4000] [--instances 1 2 4] [--kubeconfig FILE]

"partitions": each instance has nodes of its own, by a label that its profile adds to the affinity of all its pods.
"shared": all instances place their pods on all nodes, in the same order; each knows what the others did only after
the API server has told it. The pods request 95 % of the CPU of all nodes.

A line has the CPU of all instances from the first pod to the last binding, per pod, the memory of one instance, binds
that the API server refused, and nodes whose pods request more than they have. Rates say little where instances, API
server and etcd share the cores.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from apiserver import Client
from event_streams import OURS, Cluster, counts, node, pod, requests, scheduling
from steady import Process, embedded

if TYPE_CHECKING:
    Object = dict[str, Any]

POOL = "pool"
MILLICORES, SHARE = 4000, 0.95
LINE = "{:>12} {:>10} {:>12} {:>14} {:>9} {:>15}"


def configuration(kubeconfig: Path, number: int, *, partitioned: bool) -> Object:
    """Of an instance."""
    term = {"matchExpressions": [{"key": POOL, "operator": "In", "values": [str(number)]}]}
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    own = [{"name": "NodeAffinity", "args": {"addedAffinity": affinity}}] if partitioned else []
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 5000, "burst": 5000},
        "leaderElection": {"leaderElect": False},
        "profiles": [{"schedulerName": f"part-{number}", "pluginConfig": own}],
    }


def pods(prefix: str, number: int, instances: int, millicores: int) -> list[Object]:
    return [
        pod(f"{prefix}-{i}", resources=requests(f"{millicores}m", "64Mi"), schedulerName=f"part-{i % instances}")
        for i in range(number)
    ]


def promised_twice(placed: list[Object], nodes: list[Object]) -> int:
    """How many nodes have pods that request more CPU than there is."""
    asked: Counter[str] = Counter()
    for one in placed:
        for container in one["spec"]["containers"]:
            asked[one["spec"].get("nodeName", "")] += int(container["resources"]["requests"]["cpu"].removesuffix("m"))
    return sum(asked[one["metadata"]["name"]] > MILLICORES for one in nodes)


async def scheduled(
    cluster: Cluster, kubeconfig: Path, instances: int, options: argparse.Namespace, *, partitioned: bool
) -> tuple[float, float, list[Counter[str]]]:
    """Schedule the pods: CPU seconds of all instances, MiB of the largest, and what each has counted."""
    with ExitStack() as stack:
        folder, processes, urls = Path(stack.enter_context(tempfile.TemporaryDirectory())), [], []
        for number in range(instances):
            file = folder / f"{number}.yaml"
            file.write_text(json.dumps(configuration(kubeconfig, number, partitioned=partitioned)))
            process, url = stack.enter_context(scheduling(f"{OURS.split('=', 1)[1]} --config={file}", kubeconfig))
            processes.append(Process(process.pid))
            urls.append(url)
        # Once each has bound a pod, all have listed the cluster.
        await cluster.until_bound(await cluster.create_pods(pods("first", instances, instances, 1)))
        before = sum(process.cpu() for process in processes)
        each = int(options.nodes * MILLICORES * SHARE / options.pods)
        await cluster.until_bound(await cluster.create_pods(pods("pod", options.pods, instances, each)))
        cpu = sum(process.cpu() for process in processes) - before
        return cpu, max(process.memory() for process in processes), [await counts(url) for url in urls]


async def run(instances: int, options: argparse.Namespace, kubeconfig: Path, *, partitioned: bool) -> None:
    namespace = f"partitions-{time.time_ns() // 1_000_000}"
    async with Client(kubeconfig) as client:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        await client.call("POST", "/api/v1/namespaces", body)
        cluster = Cluster(client, namespace)
        listening = asyncio.create_task(cluster.listen())
        nodes = [node(f"n-{i:05d}", labels={POOL: str(i % instances)}) for i in range(options.nodes)]
        try:
            await cluster.create_nodes(nodes)
            cpu, memory, found = await scheduled(cluster, kubeconfig, instances, options, partitioned=partitioned)
            placed = json.loads(await client.call("GET", cluster.pods))["items"]
        finally:
            listening.cancel()
            await client.call("DELETE", f"{cluster.pods}?gracePeriodSeconds=0")
            await client.call("DELETE", "/api/v1/nodes")
    refused = sum(one["error"] for one in found)
    kind = "partitions" if partitioned else "shared"
    figures = f"{1e3 * cpu / options.pods:.2f}", f"{memory:.0f}", f"{refused:,}", f"{promised_twice(placed, nodes):,}"
    print(LINE.format(kind, instances, *figures), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=4000)
    parser.add_argument("--instances", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--kubeconfig", type=Path, help="another API server than the embedded one")
    options = parser.parse_args()
    print(LINE.format("nodes", "instances", "CPU ms/pod", "MiB, largest", "refused", "promised twice"), flush=True)
    for instances in options.instances:
        for partitioned in (True, False) if instances > 1 else (True,):
            with ExitStack() as stack:
                kubeconfig = options.kubeconfig or embedded(stack)
                asyncio.run(run(instances, options, kubeconfig, partitioned=partitioned))


if __name__ == "__main__":
    main()
