"""What the embedded API server stands: creates, binds, a watch with ten readers, a long list, memory a pod.

The server is a process of its own, the client is this one; both share the machine. Run it as

    python benchmarks/apiserver.py [--pods 50000] [--binds 10000] [--watchers 10] [--clients 48] [--kubeconfig K]

With --kubeconfig it measures the server that file names, and of memory says nothing. One line a figure.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import ssl
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import aiohttp
import msgspec
import yaml

NAMESPACE = "bench"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


def node(i):
    size = {"cpu": "4", "memory": "32Gi", "pods": "110"}
    labels = {"kubernetes.io/hostname": f"node-{i:05d}", "topology.kubernetes.io/zone": f"zone{i % 3}"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"node-{i:05d}", "labels": labels},
        "status": {"capacity": size, "allocatable": size},
    }


def pod(i):
    size = {"cpu": "100m", "memory": "500Mi"}
    container = {"name": "pause", "image": "pause:3.10", "resources": {"requests": size, "limits": size}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"p-{i:06d}", "namespace": NAMESPACE, "labels": {"app": "bench", "group": f"g{i % 50}"}},
        "spec": {"containers": [container]},
    }


def binding(i, nodes):
    name = f"p-{i:06d}"
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "target": {"kind": "Node", "name": f"node-{i % nodes:05d}"},
    }


class Client:
    def __init__(self, kubeconfig):
        config = yaml.safe_load(Path(kubeconfig).read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self.base = cluster["server"]
        self.headers = {"Authorization": f"Bearer {user['token']}", "Content-Type": "application/json"}
        self.tls = ssl.create_default_context()
        data = cluster.get("certificate-authority-data")
        if data:
            self.tls.load_verify_locations(cadata=base64.b64decode(data).decode())
        else:
            self.tls.check_hostname, self.tls.verify_mode = False, ssl.CERT_NONE

    async def __aenter__(self):
        connector = aiohttp.TCPConnector(ssl=self.tls, limit=0)
        self.session = aiohttp.ClientSession(headers=self.headers, connector=connector)
        return self

    async def __aexit__(self, *_):
        await self.session.close()

    async def call(self, method, path, body=None):
        data = None if body is None else msgspec.json.encode(body)
        async with self.session.request(method, self.base + path, data=data) as answer:
            content = await answer.read()
            if answer.status >= 300:
                raise RuntimeError(f"{method} {path}: {answer.status} {content[:300]!r}")
            return content

    async def rate(self, width, jobs):
        """Requests a second with so many at a time."""
        queue, done = iter(jobs), 0

        async def worker():
            nonlocal done
            for job in queue:
                await self.call(*job)
                done += 1

        begin = time.perf_counter()
        await asyncio.gather(*(worker() for _ in range(width)))
        return done / (time.perf_counter() - begin)


async def watch(client, version, wanted, ready):
    """Count lines until as many have come."""
    url = f"{client.base}{PODS}?watch=1&resourceVersion={version}"
    async with client.session.get(url, timeout=aiohttp.ClientTimeout(None), read_bufsize=1 << 22) as answer:
        await ready.wait()
        left = wanted
        while left:
            chunk = await answer.content.readany()
            left -= chunk.count(b"\n")


async def fan_out(client, args):
    """Seconds until every watcher has seen every change, and lines a second."""
    version = json.loads(await client.call("GET", f"{PODS}?limit=1"))["metadata"]["resourceVersion"]
    changes, ready = args.changes, asyncio.Barrier(args.watchers + 1)
    watchers = [asyncio.create_task(watch(client, version, changes, ready)) for _ in range(args.watchers)]
    await ready.wait()
    begin = time.perf_counter()
    patch = {"metadata": {"annotations": {"touched": "yes"}}}
    jobs = [("PATCH", f"{PODS}/p-{i:06d}", patch) for i in range(changes)]
    headers = {"Content-Type": "application/merge-patch+json"}
    client.session.headers.update(headers)
    await client.rate(args.clients, jobs)
    client.session.headers.update(client.headers)
    await asyncio.gather(*watchers)
    took = time.perf_counter() - begin
    return changes * args.watchers / took


def resident(pid):
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) * 1024


async def bench(args, kubeconfig, pid):
    async with Client(kubeconfig) as client:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        await client.call("POST", "/api/v1/namespaces", body)
        await client.rate(args.clients, (("POST", "/api/v1/nodes", node(i)) for i in range(args.nodes)))
        before = resident(pid) if pid else 0
        creates = await client.rate(args.clients, (("POST", PODS, pod(i)) for i in range(args.pods)))
        print(f"creates/s            {creates:10.0f}", flush=True)
        if pid:
            print(f"memory a pod, KiB    {(resident(pid) - before) / args.pods / 1024:10.2f}", flush=True)
        jobs = (("POST", f"{PODS}/p-{i:06d}/binding", binding(i, args.nodes)) for i in range(args.binds))
        print(f"binds/s              {await client.rate(args.clients, jobs):10.0f}", flush=True)
        print(f"watch lines/s        {await fan_out(client, args):10.0f}   {args.watchers} watchers", flush=True)
        begin = time.perf_counter()
        listed = await client.call("GET", PODS)
        took = time.perf_counter() - begin
        count = len(msgspec.json.decode(listed)["items"])
        print(f"list, s              {took:10.2f}   {count} pods, {len(listed) / 1e6:.0f} MB", flush=True)
        if pid:
            total = (resident(pid) - before) / args.pods / 1024
            print(f"memory a pod, KiB    {total:10.2f}   at the end, history and buffers included", flush=True)


@contextmanager
def started():
    with tempfile.TemporaryDirectory() as folder:
        kubeconfig = Path(folder) / "kubeconfig"
        command = [sys.executable, "-m", "stowplan", "apiserver", f"--kubeconfig-out={kubeconfig}", "--controllers="]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
            try:
                while not kubeconfig.exists():
                    if process.poll() is not None:
                        raise SystemExit("the server did not start")
                    time.sleep(0.05)
                yield kubeconfig, process.pid
            finally:
                process.terminate()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--binds", type=int, default=10_000)
    parser.add_argument("--changes", type=int, default=2_000)
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--watchers", type=int, default=10)
    parser.add_argument("--clients", type=int, default=48)
    parser.add_argument("--kubeconfig")
    args = parser.parse_args()
    if args.kubeconfig:
        asyncio.run(bench(args, args.kubeconfig, None))
        return
    with started() as (kubeconfig, pid):
        asyncio.run(bench(args, kubeconfig, pid))


if __name__ == "__main__":
    main()
