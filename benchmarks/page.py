"""What viewers of the page cost the process that serves them.

    python benchmarks/page.py [--nodes 5000] [--pods 50000] [--viewers 10] [--rate 200] [--seconds 5]
    python benchmarks/page.py --browser [--nodes 5000] [--pods 50000] [--rate 200] [--seconds 5]

The first measures the followed plan alone, without a scheduler and without a network: pods are placed on a cluster's
state at a rate, and ten times a second what has changed is looked at and made into a frame for all viewers. Told are
the share of a second that this takes, the longest single look, the slices of the first plan, and the snapshot, which
is made in another thread.

The second opens the page in a new tab of the distribution's Chromium, which has shown another page of the server
before, as a browser at work has. The browser and what drives it are processes of their own, as a user's are. Told are
milliseconds since the navigation began until the bays are drawn, and until the first picture: every bay filled with
the colours of all its pods, as they are seen at this zoom, and the frame after it begun. CPU seconds of the server and
of the browser's processes until then are told as well, because a crowded machine says little by time that passes.
Then: frames a second while pods are placed, how much CPU the page's main thread takes for that, and the memory of its
scripts.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import shutil
import statistics
import sys
import time
from itertools import chain
from random import Random
from typing import TYPE_CHECKING

from stowplan.kube.api.decode import decode_object
from stowplan.kube.timing.process_tuning import collect_garbage_less_often
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.testing import a_node, a_pod
from stowplan.ui.event_stream import Broadcaster, PlanStreams
from stowplan.ui.page_routes import page_routes, page_served
from stowplan.ui.plan_follower import INTERVAL, PlanFollower, stream_plan
from stowplan.ui.source_records import ConfigurationRecord, SourceRecord

if TYPE_CHECKING:
    from playwright.async_api import CDPSession

WORKLOADS, ZONES = 60, 6
ZONE = "topology.kubernetes.io/zone"


class Cluster:
    """A state with nodes and pods, and more pods that are placed one after another."""

    def __init__(self, nodes: int, pods: int) -> None:
        self.state, self._random, self._next = ClusterState(), Random(7), 0
        self._nodes = [f"node-{i}" for i in range(nodes)]
        for i, name in enumerate(self._nodes):
            made = a_node(name).allocatable(cpu="32", memory="128Gi", pods="110").labels(**{ZONE: f"z{i % ZONES}"})
            self.state.add_node(decode_object(made.obj()))
        for _ in range(pods):
            self.state.add_pod(self._pod(self._random.choice(self._nodes)))

    def _pod(self, node: str):
        self._next += 1
        workload = f"web-{self._next % WORKLOADS}"
        made = a_pod(f"{workload}-{self._next}").requests(cpu="500m", memory="1Gi").obj()
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": workload, "uid": workload, "controller": True}
        made["metadata"] |= {"uid": str(self._next), "labels": {"app": workload}, "ownerReferences": [owner]}
        made["spec"] |= {"nodeName": node} if node else {}
        return decode_object(made)

    def place(self) -> None:
        """As a scheduler does: a pod waits, is assumed on a node, and confirmed there."""
        info = self.state.pod_info(self._pod(""))
        node = self._random.choice(self._nodes)
        self.state.pending.put(info)
        self.state.assume(info, node)


def followed(cluster: Cluster, *, viewers: int, rate: float, seconds: float) -> None:
    follower, slices = PlanFollower(cluster.state), []
    began = time.perf_counter()
    for _ in chain(follower.begin_with_nodes(), follower.go_on_with_pods()):
        slices.append(time.perf_counter() - began)
        began = time.perf_counter()
    follower.changes()
    broadcast = Broadcaster(follower.plan.copy())
    looking = [broadcast.viewer() for _ in range(viewers)]
    began = time.perf_counter()
    snapshot = b"".join(make() for make in broadcast.snapshot())
    took = time.perf_counter() - began
    for viewer in looking:
        viewer.start()
    spent, size = [], 0
    for _ in range(round(seconds / INTERVAL)):
        for _ in range(round(rate * INTERVAL)):
            cluster.place()
        began = time.perf_counter()
        broadcast.publish(follower.changes())
        for viewer in looking:
            size += sum(map(len, viewer.take()))
        spent.append(time.perf_counter() - began)
    share = sum(spent) / seconds
    print(
        f"first plan: {len(slices)} slices, the longest {1000 * max(slices):.1f} ms, {1000 * sum(slices):.0f} ms in all"
    )
    print(f"snapshot: {1000 * took:.0f} ms in another thread, {len(snapshot) / 2**20:.1f} MiB")
    print(
        f"{viewers} viewers, {rate:g} pods/s: {100 * share:.2f} % of a second, "
        f"the longest update {1000 * max(spent):.1f} ms"
    )
    print(f"sent: {size / viewers / seconds / 1024:.1f} KiB/s to each")


async def in_a_browser(cluster: Cluster, *, rate: float, seconds: float) -> None:
    streams = PlanStreams()
    source = SourceRecord(mode="live", title="benchmark", can=("plan",))
    configuration = ConfigurationRecord(profiles=())
    pages = page_routes(lambda: source, streams=streams, configuration=lambda: configuration, answers={})
    following = asyncio.ensure_future(stream_plan(cluster.state, streams))
    async with page_served(pages, streams) as address:
        command = (sys.executable, __file__, "--drive", address, "--seconds", str(seconds))
        driver = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        assert driver.stdout is not None
        await driver.stdout.readline()
        began = time.process_time()
        first = json.loads(await driver.stdout.readline())
        server = time.process_time() - began
        spent = ", ".join(f"{name} {took:.2f}" for name, took in {"server": server, **first["cpu"]}.items())
        print("".join(f"{mark}: {at:.0f} ms; " for mark, at in first["marks"].items()) + f"CPU: {spent} s")
        placing = asyncio.ensure_future(_placing(cluster, rate))
        then = json.loads(await driver.stdout.readline())
        placing.cancel()
        gaps = then["gaps"]
        rate_seen = len(gaps) / (sum(gaps) / 1000)
        print(
            f"frames: {rate_seen:.0f} a second, the slowest hundredth {_worst(gaps):.0f} ms apart; "
            f"the page's main thread works {100 * then['busy']:.0f} % of the time"
        )
        print(f"scripts' memory: {then['heap'] / 2**20:.0f} MiB; {then['sum']}")
        await driver.wait()
    following.cancel()


async def drive(address: str, *, seconds: float) -> None:
    """Open the page and print, a line of JSON each: that the browser is ready, the first picture, what came then."""
    from playwright.async_api import async_playwright

    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-gpu", "--enable-precise-memory-info"]
        )
        context = await browser.new_context(viewport={"width": 1400, "height": 900})
        await (await context.new_page()).goto(f"{address.partition('#')[0]}assets/icon.svg")
        page = await context.new_page()
        processes = await browser.new_browser_cdp_session()
        before = await _cpu(processes)
        print("{}", flush=True)
        await page.goto(address, wait_until="commit")
        marks = await page.evaluate(DRAWN)
        cpu = {name: took - before.get(name, 0) for name, took in (await _cpu(processes)).items()}
        print(json.dumps({"marks": marks, "cpu": cpu}), flush=True)
        await page.evaluate(COUNT)
        session = await context.new_cdp_session(page)
        await session.send("Performance.enable", {"timeDomain": "threadTicks"})
        busy = -await _main_thread(session)
        await asyncio.sleep(seconds)
        busy += await _main_thread(session)
        then = {
            "busy": busy / seconds,
            "gaps": await page.evaluate("window.gaps"),
            "heap": await page.evaluate("performance.memory.usedJSHeapSize"),
            "sum": await page.locator(".sum").inner_text(),
        }
        print(json.dumps(then), flush=True)
        await browser.close()


async def _cpu(session: CDPSession) -> dict[str, float]:
    """CPU seconds of the browser's processes so far, by their type."""
    found: dict[str, float] = {}
    for process in (await session.send("SystemInfo.getProcessInfo"))["processInfo"]:
        found[process["type"]] = found.get(process["type"], 0) + process["cpuTime"]
    return found


async def _main_thread(session: CDPSession) -> float:
    """CPU seconds of the page's main thread in tasks so far."""
    metrics = (await session.send("Performance.getMetrics"))["metrics"]
    return next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration")


#: The first pictures with all nodes, and with all pods; milliseconds since the page was gone to.
DRAWN = """() => new Promise((done) => {
  const look = () => {
    const marks = performance.getEntriesByType('mark').filter((mark) => mark.name.startsWith('stowplan: '));
    if (!marks.some((mark) => mark.name === 'stowplan: plan')) return;
    const found = Object.fromEntries(marks.map((mark) => [mark.name.slice(10), mark.startTime]));
    requestAnimationFrame(() => done({ ...found, 'first picture': performance.now() }));
    watching.disconnect();
  };
  const watching = new PerformanceObserver(look);
  watching.observe({ type: 'mark', buffered: true });
})"""
#: Time between frames while the page draws.
COUNT = """() => {
  window.gaps = [];
  let last = performance.now();
  const count = (now) => { gaps.push(now - last); last = now; requestAnimationFrame(count); };
  requestAnimationFrame(count);
}"""


async def _placing(cluster: Cluster, rate: float) -> None:
    while True:
        await asyncio.sleep(0.05)
        for _ in range(round(rate * 0.05)):
            cluster.place()


def _worst(gaps: list[float]) -> float:
    return statistics.quantiles(gaps, n=100)[98] if len(gaps) > 1 else gaps[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--viewers", type=int, default=10)
    parser.add_argument("--rate", type=float, default=200)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--browser", action="store_true")
    parser.add_argument("--drive", metavar="ADDRESS", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.drive:
        asyncio.run(drive(given.drive, seconds=given.seconds))
        return
    cluster = Cluster(given.nodes, given.pods)
    # As a scheduler does with what it holds for long.
    gc.collect()
    gc.freeze()
    collect_garbage_less_often()
    if given.browser:
        asyncio.run(in_a_browser(cluster, rate=given.rate, seconds=given.seconds))
    else:
        followed(cluster, viewers=given.viewers, rate=given.rate, seconds=given.seconds)


if __name__ == "__main__":
    main()
