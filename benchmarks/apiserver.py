"""The throughput of the embedded API server: creates, binds, a watch with ten readers, a long list, memory per pod.

The server is a process of its own, the client is this one; both share the machine, so each figure comes
with the CPU time that either spent on it. Run it as

    python benchmarks/apiserver.py [--pods 50000] [--binds 10000] [--watchers 10] [--clients 48]
                                   [--without STAGES] [--in-process] [--kubeconfig K]

--without leaves out stages of a write, as the option of `stowplan apiserver` does. With --in-process there is neither
server nor client: creates and binds are calls of the registry. With --kubeconfig it measures the server that the file
names, and says nothing of its memory and CPU time. One line per figure.
What is counted is checked: a bind that did not happen or a watch line that did not come ends the run with an error.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import os
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

from stowplan_cluster.apiserver.api_server import ApiServer
from stowplan_cluster.apiserver.registry import Stages

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
        self.headers = {"Authorization": f"Bearer {user['token']}"} if "token" in user else {}
        self.tls = ssl.create_default_context()
        if "client-certificate-data" in user:
            with tempfile.NamedTemporaryFile() as pair:
                pair.write(b"".join(base64.b64decode(user[f"client-{half}-data"]) for half in ("certificate", "key")))
                pair.flush()
                self.tls.load_cert_chain(pair.name)
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
        headers = {"Content-Type": "application/merge-patch+json" if method == "PATCH" else "application/json"}
        async with self.session.request(method, self.base + path, data=data, headers=headers) as answer:
            content = await answer.read()
            if answer.status >= 300:
                raise RuntimeError(f"{method} {path}: {answer.status} {content[:300]!r}")
            return content

    async def call_all(self, jobs, *, width):
        """So many at a time; the first that fails ends it."""
        queue = iter(jobs)

        async def worker():
            for job in queue:
                await self.call(*job)

        async with asyncio.TaskGroup() as workers:
            for _ in range(width):
                workers.create_task(worker())

    async def version(self):
        listed = await self.call("GET", f"{PODS}?limit=1")
        return msgspec.json.decode(listed)["metadata"]["resourceVersion"]


async def watch(client, version, wanted, ready):
    """Count lines until as many have come, and not one more."""
    url = f"{client.base}{PODS}?watch=1&resourceVersion={version}"
    async with client.session.get(url, timeout=aiohttp.ClientTimeout(None), read_bufsize=1 << 22) as answer:
        await ready.wait()
        left, last = wanted, b""
        while left > 0:
            last = await answer.content.readany()
            left -= last.count(b"\n")
            if not last or b'{"type":"ERROR"' in last:
                raise RuntimeError(f"a watch ended {left} lines too early: {last[-300:]!r}")
        if left or not last.endswith(b"\n"):
            raise RuntimeError(f"a watch told {-left} lines too many")


async def watch_all(client, watchers, wanted, jobs=(), *, width=1):
    """Until each of the watchers has seen as many changes: those that the jobs make, or those there were."""
    ready = asyncio.Barrier(watchers + 1)
    version, count = wanted
    async with asyncio.TaskGroup() as group:
        for _ in range(watchers):
            group.create_task(watch(client, version, count, ready))
        await ready.wait()
        await client.call_all(jobs, width=width)


class Meter:
    """Time on the clock and on the CPU, the server's and ours."""

    def __init__(self, pid):
        self._pid = pid

    def _now(self):
        own = os.times()
        return time.perf_counter(), self._server_cpu(), own.user + own.system

    def _server_cpu(self):
        if self._pid is None:
            return 0.0
        fields = Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident(self):
        status = Path(f"/proc/{self._pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) * 1024

    @contextmanager
    def rate(self, title, count):
        before = self._now()
        yield
        took, server, client = (after - earlier for after, earlier in zip(self._now(), before, strict=True))
        spent = f"server {server / count * 1e6:4.0f} us, " if self._pid is not None else ""
        report(f"{title}/s", f"{count / took:10.0f}   {spent}client {client / count * 1e6:4.0f} us of CPU each")


def report(title, text):
    print(f"{title:24} {text}", flush=True)


async def bench(args, kubeconfig, pid):
    meter = Meter(pid)
    async with Client(kubeconfig) as client:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        await client.call("POST", "/api/v1/namespaces", body)
        await client.call_all((("POST", "/api/v1/nodes", node(i)) for i in range(args.nodes)), width=args.clients)
        before = meter.resident() if pid else 0
        with meter.rate("creates", args.pods):
            await client.call_all((("POST", PODS, pod(i)) for i in range(args.pods)), width=args.clients)
        if pid:
            report("memory a pod, KiB", f"{(meter.resident() - before) / args.pods / 1024:10.2f}")
        unbound = await client.version()
        jobs = [("POST", f"{PODS}/p-{i:06d}/binding", binding(i, args.nodes)) for i in range(args.binds)]
        with meter.rate("binds", args.binds):
            await client.call_all(jobs, width=args.clients)
        await watches(client, meter, args, unbound)
        await lists(client, args)
        if pid:
            told = f"{(meter.resident() - before) / args.pods / 1024:10.2f}   at the end, history and buffers included"
            report("memory a pod, KiB", told)


async def watches(client, meter, args, unbound):
    """What happened already, as fast as it can be told; then changes while they are made."""
    with meter.rate("watch lines, past", args.binds * args.watchers):
        await watch_all(client, args.watchers, (unbound, args.binds))
    patch = {"metadata": {"annotations": {"touched": "yes"}}}
    jobs = [("PATCH", f"{PODS}/p-{i:06d}", patch) for i in range(args.changes)]
    now = await client.version()
    with meter.rate("watch lines, live", args.changes * args.watchers):
        await watch_all(client, args.watchers, (now, args.changes), jobs, width=args.clients)


async def lists(client, args):
    begin = time.perf_counter()
    listed = await client.call("GET", PODS)
    took = time.perf_counter() - begin
    items = msgspec.json.decode(listed)["items"]
    bound = sum("nodeName" in item["spec"] for item in items)
    if (len(items), bound) != (args.pods, args.binds):
        raise RuntimeError(f"of {args.pods} pods {len(items)} are there; of {args.binds} binds {bound} were done")
    report("list, s", f"{took:10.2f}   {len(items)} pods, {len(listed) / 1e6:.0f} MB")


def in_process(args, stages):
    """The same creates and binds, as calls."""
    server = ApiServer(stages=stages)
    server.create_all([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}])
    server.create_all(node(i) for i in range(args.nodes))
    pods = server.registry.of_storage("pods")
    with in_turn("creates", [pod(i) for i in range(args.pods)]) as jobs:
        for job in jobs:
            server.registry.create(pods, NAMESPACE, job)
    with in_turn("binds", [binding(i, args.nodes) for i in range(args.binds)]) as jobs:
        for job in jobs:
            server.registry.bind(NAMESPACE, job["metadata"]["name"], job)


@contextmanager
def in_turn(title, jobs):
    begin = time.process_time()
    yield jobs
    took = time.process_time() - begin
    report(f"{title}, in process", f"{took / len(jobs) * 1e6:10.0f} us of CPU each")


@contextmanager
def started(without):
    with tempfile.TemporaryDirectory() as folder:
        kubeconfig = Path(folder) / "kubeconfig"
        options = [f"--kubeconfig-out={kubeconfig}", "--controllers=", f"--without={without}"]
        command = [sys.executable, "-m", "stowplan", "apiserver", *options]
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
    parser.add_argument("--without", default="")
    parser.add_argument("--in-process", action="store_true")
    parser.add_argument("--kubeconfig")
    args = parser.parse_args()
    if max(args.binds, args.changes) > args.pods:
        parser.error("--binds and --changes are of different pods: there have to be as many --pods")
    if args.kubeconfig:
        asyncio.run(bench(args, args.kubeconfig, None))
        return
    if args.in_process:
        in_process(args, Stages.without([name for name in args.without.split(",") if name]))
        return
    with started(args.without) as (kubeconfig, pid):
        asyncio.run(bench(args, kubeconfig, pid))


if __name__ == "__main__":
    main()
