"""A large cluster with a steady coming and going of pods: does the scheduler stay as it is?

    python benchmarks/steady.py [--nodes 15000] [--pods 100000] [--rate 100] [--minutes 10] [--warm-up 4]
                                [--window 60] [--kubeconfig FILE] [--scenario mixed] [-- more flags of kube-scheduler]

`kube-scheduler` runs as a process of its own, as it does in production: leader election, metrics and its port, which
nothing but this benchmark asks. The API server is a third process: the embedded one, or that of a kubeconfig.
Every second `--rate` pods are created, and as many of the oldest are deleted. Each line is a window: CPU and
memory of the scheduler, and how long pods waited from the answer to their creation until a watch told of their node.
The last line compares the first third of the windows with the last one; it should say "flat". What the scheduler
remembers of pods (20,000 stories, 10,000 events) fills at first: the windows of `--warm-up` are shown and not judged.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections import deque
from contextlib import ExitStack, contextmanager
from pathlib import Path

import aiohttp
import msgspec
import shapes
from apiserver import Client

POD_PATH = f"/api/v1/namespaces/{shapes.NAMESPACE}/pods"
HZ = os.sysconf("SC_CLK_TCK")
#: Seconds without any pod.
REST = 10
#: By what the last third of the windows may exceed the first and still be called flat.
FLAT = 1.10


class Metadata(msgspec.Struct):
    name: str = ""


class Spec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str = ""


class Object(msgspec.Struct):
    metadata: Metadata
    spec: Spec = Spec()


class Change(msgspec.Struct):
    type: str
    object: Object


class Process:
    """What a process has used."""

    def __init__(self, pid: int) -> None:
        self._proc = Path(f"/proc/{pid}")

    def cpu(self) -> float:
        fields = (self._proc / "stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / HZ

    def memory(self) -> float:
        """MiB."""
        lines = (self._proc / "status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


class Bindings:
    """Hears of each pod's node."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.waiting: dict[str, float] = {}
        self.took: list[float] = []
        self.bound_twice: list[str] = []
        #: Set when a pod that waited has its node.
        self.first = asyncio.Event()
        self._nodes: dict[str, str] = {}

    async def listen(self, version: str) -> None:
        decode = msgspec.json.Decoder(Change).decode
        while True:
            url = f"{self._client.base}{POD_PATH}?watch=1&resourceVersion={version}"
            timeout = aiohttp.ClientTimeout(None)
            async with self._client.session.get(url, timeout=timeout, read_bufsize=1 << 22) as answer:
                async for line in answer.content:
                    self._heard(decode(line))
            version = await self._client.version()

    def _heard(self, change: Change) -> None:
        name, node = change.object.metadata.name, change.object.spec.node_name
        if change.type == "DELETED":
            self._nodes.pop(name, None)
        elif node:
            if self._nodes.setdefault(name, node) != node:
                self.bound_twice.append(name)
            created = self.waiting.pop(name, None)
            if created is not None:
                self.took.append(time.monotonic() - created)
                self.first.set()


async def fill(client: Client, options: argparse.Namespace) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": shapes.NAMESPACE}}
    await client.call("POST", "/api/v1/namespaces", namespace)
    nodes = (shapes.node(i, cpu="16") for i in range(options.nodes))
    await client.call_all((("POST", "/api/v1/nodes", node) for node in nodes), width=32)
    # Bound as a scheduler binds them, so that a pod that leaves is as large as the one that comes for it.
    pods = (without_uid(shapes.pod(i, options.scenario, "old")) for i in range(options.pods))
    await client.call_all((("POST", POD_PATH, pod) for pod in pods), width=32)
    bindings = (binding(f"old-{i:06d}", f"node-{i % options.nodes:05d}") for i in range(options.pods))
    await client.call_all(bindings, width=32)


def binding(pod: str, node: str) -> tuple[str, str, dict[str, object]]:
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": {"kind": "Node", "name": node}}
    return "POST", f"{POD_PATH}/{pod}/binding", body


def without_uid(pod: dict[str, object]) -> dict[str, object]:
    del pod["metadata"]["uid"]
    return pod


async def churn(client: Client, heard: Bindings, options: argparse.Namespace) -> None:
    """So many come and so many go each second, spread over it."""
    leaving = deque(f"old-{i:06d}" for i in range(options.pods))
    begun, i = time.monotonic(), 0
    step = max(1, options.rate // 20)
    async with asyncio.TaskGroup() as requests:
        while i < options.rate * (options.warm_up + options.minutes) * 60:
            await asyncio.sleep(max(0.0, begun + i / options.rate - time.monotonic()))
            for _ in range(step):
                pod = without_uid(shapes.pod(i, options.scenario, "new"))
                name = pod["metadata"]["name"]
                requests.create_task(create(client, heard, name, pod))
                leaving.append(name)
                requests.create_task(client.call("DELETE", f"{POD_PATH}/{leaving.popleft()}?gracePeriodSeconds=0"))
                i += 1


async def create(client: Client, heard: Bindings, name: str, pod: dict[str, object]) -> None:
    # Before the request: its node may be heard of earlier than the answer.
    heard.waiting[name] = time.monotonic()
    await client.call("POST", POD_PATH, pod)
    if name in heard.waiting:
        heard.waiting[name] = time.monotonic()


async def windows(process: Process, heard: Bindings, options: argparse.Namespace) -> list[tuple[float, float, float]]:
    """(CPU ms a pod, MiB, p99 ms) of each."""
    print("  minute    pods/s    CPU %  ms/pod     MiB    p50 ms    p99 ms   worst ms   waiting", flush=True)
    found = []
    begun = time.monotonic()
    for number in range(1, int((options.warm_up + options.minutes) * 60 / options.window) + 1):
        cpu, since = process.cpu(), time.monotonic()
        heard.took.clear()
        await asyncio.sleep(max(0.0, begun + number * options.window - time.monotonic()))
        used, passed, took = process.cpu() - cpu, time.monotonic() - since, sorted(heard.took)
        if not took:
            raise SystemExit("no pod was bound")
        p50, p99, worst = (1e3 * took[int(share * (len(took) - 1))] for share in (0.5, 0.99, 1.0))
        each, memory = 1e3 * used / len(took), process.memory()
        found.append((each, memory, p99))
        minute, rate, share = number * options.window / 60, len(took) / passed, 100 * used / passed
        print(
            f"{minute:8.1f} {rate:9.1f} {share:8.1f} {each:7.2f} {memory:7.0f} "
            f"{p50:9.1f} {p99:9.1f} {worst:10.1f} {len(heard.waiting):9}",
            flush=True,
        )
    return found[round(options.warm_up * 60 / options.window) :]


def verdict(found: list[tuple[float, float, float]]) -> str:
    """First third against last third."""
    third = max(1, len(found) // 3)
    words = []
    for what, column in (("CPU", 0), ("memory", 1)):
        first, last = (sum(row[column] for row in rows) / third for rows in (found[:third], found[-third:]))
        words.append(f"{what} {'flat' if last <= first * FLAT else 'GROWS'} ({first:.2f} -> {last:.2f})")
    return ", ".join(words)


@contextmanager
def scheduling(kubeconfig: Path, options: argparse.Namespace):
    command = [sys.executable, "-m", "stowplan.app.cli.kube_scheduler", f"--kubeconfig={kubeconfig}", *options.flags]
    # The default of 50 requests a second is made for small clusters.
    command += ["--kube-api-qps=1000", "--kube-api-burst=2000", "--bind-address=127.0.0.1"]
    with subprocess.Popen(command) as process:
        try:
            yield process.pid
        finally:
            process.terminate()


async def until_at_work(client: Client, heard: Bindings) -> float:
    """Until it has bound a first pod; how long that took."""
    begun = time.monotonic()
    pod = without_uid(shapes.pod(0, prefix="first"))
    await create(client, heard, pod["metadata"]["name"], pod)
    await heard.first.wait()
    return time.monotonic() - begun


async def measure(kubeconfig: Path, options: argparse.Namespace) -> None:
    async with Client(kubeconfig) as client:
        await fill(client, options)
        heard = Bindings(client)
        listening = asyncio.create_task(heard.listen(await client.version()))
        with scheduling(kubeconfig, options) as pid:
            process = Process(pid)
            took = await until_at_work(client, heard)
            print(f"first pod bound after {took:.1f} s, {process.cpu():.1f} s of CPU, {process.memory():.0f} MiB")
            rested = process.cpu()
            await asyncio.sleep(REST)
            print(f"at rest: {100 * (process.cpu() - rested) / REST:.2f} % CPU")
            churning = asyncio.create_task(churn(client, heard, options))
            found = await windows(process, heard, options)
            await churning
            await asyncio.sleep(5)
        listening.cancel()
        print(f"{verdict(found)}; {len(heard.waiting)} pods left waiting, {len(heard.bound_twice)} bound twice")


def embedded(stack: ExitStack) -> Path:
    kubeconfig = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "kubeconfig"
    command = [sys.executable, "-m", "stowplan", "apiserver", "--controllers=", f"--kubeconfig-out={kubeconfig}"]
    process = stack.enter_context(subprocess.Popen(command, stdout=subprocess.DEVNULL))
    stack.callback(process.terminate)
    while not kubeconfig.exists():
        if process.poll() is not None:
            raise SystemExit("the server did not start")
        time.sleep(0.05)
    return kubeconfig


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=15_000)
    parser.add_argument("--pods", type=int, default=100_000, help="pods that run at any time")
    parser.add_argument("--rate", type=int, default=100, help="pods a second that come, and that go")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--warm-up", type=float, default=4, help="minutes before those")
    parser.add_argument("--window", type=float, default=60, help="seconds of a line")
    parser.add_argument("--scenario", default="mixed", choices=shapes.SCENARIOS)
    parser.add_argument("--kubeconfig", type=Path, help="another API server than the embedded one")
    parser.add_argument("flags", nargs="*", help="of kube-scheduler")
    options = parser.parse_args()
    with ExitStack() as stack:
        asyncio.run(measure(options.kubeconfig or embedded(stack), options))


if __name__ == "__main__":
    main()
