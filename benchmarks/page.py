"""What viewers of the page cost the process that serves them.

    python benchmarks/page.py [--nodes 5000] [--pods 50000] [--viewers 10] [--rate 200] [--seconds 5]
    python benchmarks/page.py --browser [--nodes 5000] [--pods 50000] [--rate 200] [--seconds 5]

The first measures the followed plan alone, without a scheduler and without a network: pods are placed on a cluster's
state at a rate, and ten times a second what has changed is looked at and made into a frame for all viewers. Told are
the share of a second that this takes, the longest single look, the slices of the first plan, and the snapshot, which
is made in another thread.

The second opens the page in the distribution's Chromium: the time to the first picture with all pods, frames a second
while pods are placed, and the memory of the page's scripts.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import shutil
import statistics
import time
from random import Random

from stowplan.api.decode import decode_object
from stowplan.cluster.state import ClusterState
from stowplan.page.broadcast import Broadcast
from stowplan.page.feed import Feed
from stowplan.page.following import INTERVAL, PlanFollower, follow
from stowplan.page.loopback import page_served
from stowplan.page.records import ConfigurationRecord, SourceRecord
from stowplan.page.site import site
from stowplan.testing import a_node, a_pod

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
    for _ in follower.begin():
        slices.append(time.perf_counter() - began)
        began = time.perf_counter()
    broadcast = Broadcast(follower.plan.copy())
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
        broadcast.publish(follower.look())
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
        f"the longest look {1000 * max(spent):.1f} ms"
    )
    print(f"sent: {size / viewers / seconds / 1024:.1f} KiB/s to each")


async def in_a_browser(cluster: Cluster, *, rate: float, seconds: float) -> None:
    from playwright.async_api import async_playwright

    feed = Feed()
    source = SourceRecord(mode="live", title="benchmark", can=("plan",))
    pages = site(lambda: source, feed=feed, configuration=lambda: ConfigurationRecord(profiles=()), answers={})
    following = asyncio.ensure_future(follow(cluster.state, feed))
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    async with page_served(pages, feed) as address, async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-gpu", "--enable-precise-memory-info"]
        )
        page = await browser.new_page(viewport={"width": 1400, "height": 900})
        began = time.perf_counter()
        await page.goto(address)
        drawn = await page.wait_for_function(DRAWN)
        await page.evaluate("new Promise(requestAnimationFrame)")
        took = time.perf_counter() - began
        marks = await drawn.json_value()
        print(f"first picture: {took:.2f} s" + "".join(f"; {mark} after {at / 1000:.2f} s" for mark, at in marks))
        await page.evaluate(COUNT)
        placing = asyncio.ensure_future(_placing(cluster, rate))
        await asyncio.sleep(seconds)
        placing.cancel()
        gaps = await page.evaluate("window.gaps")
        heap = await page.evaluate("performance.memory.usedJSHeapSize")
        print(
            f"frames: {len(gaps) / (sum(gaps) / 1000):.0f} a second, the slowest hundredth {_worst(gaps):.0f} ms apart"
        )
        print(f"scripts' memory: {heap / 2**20:.0f} MiB; {await page.locator('.sum').inner_text()}")
        await browser.close()
    following.cancel()


#: The first pictures with all nodes, and with all pods; milliseconds since the page was gone to.
DRAWN = """() => {
  const marks = performance.getEntriesByType('mark').filter((mark) => mark.name.startsWith('stowplan: '));
  return marks.some((mark) => mark.name === 'stowplan: plan') && marks.map((mark) => [mark.name, mark.startTime]);
}"""
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
    given = parser.parse_args()
    cluster = Cluster(given.nodes, given.pods)
    # As a scheduler does with what it holds for long.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    if given.browser:
        asyncio.run(in_a_browser(cluster, rate=given.rate, seconds=given.seconds))
    else:
        followed(cluster, viewers=given.viewers, rate=given.rate, seconds=given.seconds)


if __name__ == "__main__":
    main()
