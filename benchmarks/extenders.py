"""Pods that an HTTP extender has a say in, and pods beside them that it has none in.

    python benchmarks/extenders.py [race] [beside] [--nodes 1000] [--pods 500] [--milliseconds 5]
                                   [--good 500] [--rate 50]

The extender is a process of its own and answers after a fixed time, questions side by side; it is nodeCacheCapable, and
leaves all nodes. Scheduler and API share the other process and one event loop, so the figures hold the API's work too.

"race": pods that all come at once; how long until the last is bound, with the extender asked for one pod after the
other (serial, as in the reference), and for many at a time (overlap). Without one for comparison.
"beside": 100 pods wait for an extender that hangs, while good pods of another profile come at a steady rate; how long
those take from their creation to the moment at which the store has their node, with and without the others.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import shapes
from aiohttp import web
from live import Cluster, Meter, Moment, late, now, scheduling

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

GOOD_PROFILE = "good"
#: Pods that ask for it interest the extender that hangs.
RESOURCE = "example.com/asks"
WAITING = 100
#: Seconds after which the benchmark gives up.
LONGEST = 120.0


# -- the extender ------------------------------------------------------------------------------------------------------


def serve(milliseconds: float) -> None:
    """Answer after so long, or never if that is negative; say the port first."""

    async def filtered(request: web.Request) -> web.Response:
        names = json.loads(await request.read())["NodeNames"]
        await (asyncio.sleep(milliseconds / 1e3) if milliseconds >= 0 else asyncio.Event().wait())
        return web.Response(body=json.dumps({"NodeNames": names}).encode(), content_type="application/json")

    async def main() -> None:
        application = web.Application(client_max_size=1 << 26)
        application.router.add_post("/filter", filtered)
        runner = web.AppRunner(application)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        print(runner.addresses[0][1], flush=True)
        # Whoever started it holds the other end.
        await asyncio.to_thread(sys.stdin.read)

    asyncio.run(main())


@contextmanager
def extender(milliseconds: float, **more: Any) -> Iterator[dict[str, Any]]:
    """The settings of one that runs until the end of the block."""
    command = [sys.executable, __file__, "--serve", str(milliseconds)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            port = int(process.stdout.readline())
            yield {"urlPrefix": f"http://127.0.0.1:{port}", "filterVerb": "filter", "nodeCacheCapable": True, **more}
        finally:
            process.stdin.close()
            process.wait()


def configuration(*extenders: dict[str, Any], profiles: tuple[str, ...] = ("default-scheduler",)) -> dict[str, Any]:
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": name} for name in profiles],
        "extenders": list(extenders),
    }


def cluster_of(nodes: int) -> Cluster:
    cluster = Cluster()
    for i in range(nodes):
        cluster.create(shapes.node(i))
    return cluster


# -- race --------------------------------------------------------------------------------------------------------------


async def race(options: argparse.Namespace) -> None:
    for what in ("none", "serial", "overlap"):
        with extender(options.milliseconds) as settings:
            await _race(what, configuration(*([] if what == "none" else [settings])), options)


async def _race(what: str, config: dict[str, Any], options: argparse.Namespace) -> None:
    cluster = cluster_of(options.nodes)
    async with scheduling(cluster, config, overlaps=what == "overlap"):
        gc.collect()
        with Meter(0) as meter:
            names = [_created(cluster, shapes.pod(i, prefix="p")) for i in range(options.pods)]
            await _until(lambda: all(name in cluster.bound for name in names))
    each = 1e3 * meter.seconds / options.pods
    asked = "no extender" if what == "none" else f"{what}, {options.milliseconds:g} ms each"
    print(
        f"{options.nodes:,} nodes, {asked}: {options.pods / meter.seconds:,.0f} pods/s, {each:.2f} ms a pod, "
        f"{1e3 * meter.cpu / options.pods:.2f} ms of it CPU of ours",
        flush=True,
    )


def _created(cluster: Cluster, obj: dict[str, Any]) -> str:
    cluster.create(obj)
    name: str = obj["metadata"]["name"]
    return name


async def _until(reached: Callable[[], bool]) -> None:
    give_up = time.perf_counter() + LONGEST
    while not reached():
        if time.perf_counter() > give_up:
            raise RuntimeError(f"not reached within {LONGEST:g} s")
        await asyncio.sleep(0.002)


# -- beside an extender that hangs -------------------------------------------------------------------------------------


async def beside(options: argparse.Namespace) -> None:
    managed = [{"name": RESOURCE, "ignoredByScheduler": True}]
    for waiting in (0, WAITING):
        with extender(-1, managedResources=managed, httpTimeout="60s") as settings:
            await _beside(waiting, configuration(settings, profiles=("default-scheduler", GOOD_PROFILE)), options)


async def _beside(waiting: int, config: dict[str, Any], options: argparse.Namespace) -> None:
    cluster = cluster_of(options.nodes)
    async with scheduling(cluster, config, overlaps=True) as scheduler:
        for i in range(waiting):
            cluster.create(_asking(shapes.pod(i, prefix="waits")))
        await _until(lambda: len(scheduler.engine.suspended.under_way) == waiting)
        gc.collect()
        born: dict[str, Moment] = {}
        start = time.perf_counter()
        for tick in range(options.good):
            await asyncio.sleep(max(0.0, start + tick / options.rate - time.perf_counter()))
            obj = shapes.pod(tick, prefix="good", schedulerName=GOOD_PROFILE)
            born[obj["metadata"]["name"]] = now()
            cluster.create(obj)
        await _until(lambda: all(name in cluster.bound for name in born))
        still = len(scheduler.engine.suspended.under_way)
    latencies = late(cluster.bound[name][0] - at[0] for name, at in born.items())
    print(f"{still} pods wait for an extender that hangs: {len(born)} good pods bound after {latencies}", flush=True)


def _asking(obj: dict[str, Any]) -> dict[str, Any]:
    container = obj["spec"]["containers"][0]
    resources = {"requests": {"cpu": "10m", RESOURCE: "1"}, "limits": {RESOURCE: "1"}}
    obj["spec"]["containers"] = [{**container, "resources": resources}]
    return obj


async def run(options: argparse.Namespace) -> None:
    if "race" in options.what:
        await race(options)
    if "beside" in options.what:
        await beside(options)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", default=["race", "beside"])
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=500)
    parser.add_argument("--milliseconds", type=float, default=5.0, help="what the extender takes for an answer")
    parser.add_argument("--good", type=int, default=500)
    parser.add_argument("--rate", type=float, default=50.0, help="good pods a second")
    parser.add_argument("--serve", type=float, default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve is not None:
        serve(options.serve)
        return
    logging.disable(logging.CRITICAL)
    asyncio.run(run(options))


if __name__ == "__main__":
    main()
