"""The agents' server: how long its answers take once it has the cluster, asked by the SDK's own client on stdio.

    python benchmarks/agents.py [--nodes 5000] [--pods 50000] [--shape deployments] [--only survive]

A line has the seconds of the first answer and of the next one, as the client sees them, and the server's CPU for the
next; then how many pods were decided, of how many, if that took too long for all. The cluster is that of what_if.py,
beside 200 pods that fit nowhere, in a file.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import shapes
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from steady import Process
from what_if import SHAPES, objects_of, pod_of

from stowplan.ask.what_if.survive import ZONE

if TYPE_CHECKING:
    from typing import Any

    Question = tuple[str, str, dict[str, Any]]

PACKED = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated}}}]
"""
HUNDRED = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: more, namespace: default}
spec:
  replicas: 100
  selector: {matchLabels: {app: more}}
  template:
    metadata: {labels: {app: more}}
    spec: {containers: [{name: c, image: i, resources: {requests: {cpu: "3"}}}]}
"""
STARTED = 120


def questions(shape: str, nodes: list[str]) -> list[Question]:
    pod = f"{shapes.NAMESPACE}/{pod_of(shape, 1)['metadata']['name']}"
    first, ten, fifty = nodes[0], nodes[:10], nodes[:50]
    workload = f"{shapes.NAMESPACE}/web-1-abc"
    return [
        ("explain: a pod with a node", "explain", {"of": pod}),
        ("explain: a pod without", "explain", {"of": f"{shapes.NAMESPACE}/huge-000001"}),
        ("explain: a workload", "explain", {"of": f"replicaset/{workload}"}),
        ("explain: a node", "explain", {"of": f"node/{first}"}),
        ("pending", "pending", {}),
        ("fit: how many more", "fit", {"of": pod}),
        ("fit: 1,000 more", "fit", {"of": pod, "more": 1_000}),
        ("fit: common shapes", "fit", {}),
        ("drain: one node", "drain", {"nodes": [first]}),
        ("drain: fifty nodes", "drain", {"nodes": fifty}),
        ("drain: a zone, in part", "drain", {"zone": "zone0"}),
        ("survive: one node", "survive", {"by": "node", "only": first}),
        ("survive: each node", "survive", {"by": "node"}),
        ("survive: one zone", "survive", {"by": ZONE, "only": "zone0"}),
        ("survive: each zone", "survive", {}),
        ("what_if: three nodes more", "what_if", {"addNodes": [{"like": first, "count": 3}]}),
        ("what_if: ten nodes less", "what_if", {"remove": ten}),
        ("what_if: fifty nodes drained", "what_if", {"drain": fifty}),
        ("what_if: another configuration", "what_if", {"config": PACKED}),
        ("what_if: other weights", "what_if", {"weights": {"default-scheduler": {"NodeResourcesFit": 3}}}),
        ("what_if: pods spread", "what_if", {"rebalance": "spread"}),
        ("what_if: ten nodes freed", "what_if", {"rebalance": "free-nodes=10"}),
        ("what_if: pods packed", "what_if", {"rebalance": "pack"}),
        ("what_if: misplaced pods moved", "what_if", {"rebalance": "mend"}),
        ("what_if: room for 100 pods", "what_if", {"rebalance": "room-for", "manifests": HUNDRED}),
        ("what_if: a Deployment of 5,000", "what_if", {"manifests": HUNDRED.replace("100", "5000")}),
    ]


async def run(options: argparse.Namespace, file: Path, nodes: list[str]) -> None:
    command = StdioServerParameters(command=sys.executable, args=["-m", "stowplan", "mcp", "-f", str(file)])
    before = set(children())
    async with Client(stdio_client(command), read_timeout_seconds=STARTED) as client:
        (server,) = (Process(int(pid)) for pid in set(children()) - before)
        print(f"{'':34} {'first':>9} {'next':>9} {'CPU':>9}", flush=True)
        for title, tool, arguments in questions(options.shape, nodes):
            if options.only and not title.startswith(options.only):
                continue
            took = []
            for _ in range(2):
                began, busy = time.perf_counter(), server.cpu()
                found = await client.call_tool(tool, arguments)
                took += [time.perf_counter() - began, server.cpu() - busy]
            more = found.content[0].text if found.is_error else found.structured_content.get("partial")
            print(f"{title:34} {took[0]:7.2f} s {took[2]:7.2f} s {took[3]:7.2f} s  {more or ''}", flush=True)


def children() -> list[str]:
    tasks = Path("/proc/self/task").iterdir()
    return [pid for task in tasks for pid in (task / "children").read_text().split()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--shape", choices=SHAPES, default="deployments")
    parser.add_argument("--only", metavar="WORD", help="only questions that begin with it")
    options = parser.parse_args()
    objects = objects_of(options.shape, options.nodes, options.pods)
    size = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "64"}}}]}
    objects += [{**shapes.pod(i, prefix="huge"), "spec": size} for i in range(200)]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "cluster.json")
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
        names = [one["metadata"]["name"] for one in objects if one["kind"] == "Node"]
        asyncio.run(run(options, file, names))


if __name__ == "__main__":
    main()
