"""The pictures of docs/use, taken of the real page: a cluster of files, and simulations.

    make pictures PICTURES=docs/assets [WEEK=week.csv]

week.csv: the week of a trace in docs/use/rebalance.md, which is simulated twice; CI has no copy of the trace.
Needs Chromium and what the tests need. The same sources give the same pictures, but for ages and the fonts of the
machine. CI takes them as well, into build/pictures.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import yaml
from playwright.sync_api import sync_playwright

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from playwright.sync_api import Browser, Page

WEEK = Path(__file__).parent.parent / "examples/simulation/gpu-week.yaml"
WORKLOADS = {
    "shop": {"web": (26, "500m", "1Gi"), "cart": (18, "250m", "512Mi"), "search": (8, "2", "6Gi")},
    "data": {"cache": (20, "500m", "4Gi"), "etl": (9, "3", "8Gi"), "stream": (16, "1", "2Gi")},
    "ml": {"infer": (12, "2", "4Gi"), "train": (5, "6", "24Gi")},
}
PRIORITIES = {"shop": 1000, "data": 100, "ml": 0}
GPU = "nvidia.com/gpu"
ZONES = ("eu-1a", "eu-1b", "eu-1c")
SCENARIO = """
name: rush
duration: 2h
seed: 3
cluster:
  groups:
  - name: general
    count: 6
    capacity: {cpu: "16", memory: 64Gi, pods: "60"}
    zones: [a, b]
    price: 0.80
    autoscale: {min: 6, max: 12}
workloads:
- name: batch
  manifest: {kind: Pod, spec: {containers: [{name: c, image: i, resources: {requests: {cpu: "2", memory: 4Gi}}}]}}
  poisson: 150/h
  lifetime: {lognormal: {median: 20m, p95: 60m}}
- name: web
  manifest: {kind: Pod, spec: {containers: [{name: c, image: i, resources: {requests: {cpu: "1", memory: 2Gi}}}]}}
  poisson: 60/h
  lifetime: {exponential: 40m}
events:
- {at: 70m, outage: {zone: b, for: 10m}}
"""
PACKING = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - pluginConfig:
      - name: NodeResourcesFit
        args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}, {name: memory, weight: 1}]}}
"""


def cluster() -> dict[str, Any]:
    """Three zones of eight nodes; most pods have a node, some wait for different reasons."""
    chance = Random(5)
    nodes = [_node(f"{zone[-1]}{number}", zone, number) for zone in ZONES for number in range(1, 9)]
    room = {node["metadata"]["name"]: 16_000 for node in nodes if not node["spec"]}
    pods = []
    for namespace, workloads in WORKLOADS.items():
        for name, (count, cpu, memory) in workloads.items():
            milli = int(cpu[:-1]) if cpu.endswith("m") else 1000 * int(cpu)
            for number in range(count):
                fits = [
                    node for node, left in room.items() if left >= milli and (name != "infer" or node.endswith("7"))
                ]
                # The last of each wait.
                node = chance.choice(fits) if number < count - (count > 15) else ""
                if node:
                    room[node] -= milli
                gpus = {GPU: "1" if number % 3 else "2"} if name == "infer" else {}
                pods.append(_pod(f"{name}-{number}", namespace, name, {"cpu": cpu, "memory": memory, **gpus}, node))
    pods.append(_pod("train-large-0", "ml", "train-large", {"cpu": "40", "memory": "24Gi"}, ""))
    small = {"cpu": "1", "memory": "4Gi"}
    pods.append(_pod("gpu-0", "ml", "gpu", small, "", nodeSelector={"accelerator": "h100"}))
    pods.append(_pod("later-0", "data", "later", small, "", schedulingGates=[{"name": "example.com/quota"}]))
    return {"apiVersion": "v1", "kind": "List", "items": [*nodes, *pods]}


def _node(name: str, zone: str, number: int) -> dict[str, Any]:
    labels = {"topology.kubernetes.io/zone": zone, "topology.kubernetes.io/rack": f"{zone}-r{number % 2}"}
    spec: dict[str, Any] = {}
    if number == 8:
        spec["taints"] = [{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}]
    elif name == "b2":
        spec["unschedulable"] = True
    capacity = {"cpu": "16", "memory": "64Gi", "pods": "110", **({GPU: "8"} if number >= 7 else {})}
    metadata = {"name": f"node-{name}", "labels": labels}
    status = {"allocatable": capacity, "capacity": capacity}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec, "status": status}


def _pod(name: str, namespace: str, workload: str, requests: dict[str, str], node: str, **spec: Any) -> dict[str, Any]:
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": workload, "uid": workload, "controller": True}
    container = {"name": "c", "image": "i", "resources": {"requests": requests, "limits": requests}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": workload}, "ownerReferences": [owner]},
        "spec": {
            "containers": [container],
            "priority": PRIORITIES[namespace],
            **({"nodeName": node} if node else {}),
            **spec,
        },
    }


@contextmanager
def served(*arguments: str, folder: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "stowplan", "ui", *arguments]
    env = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder, env=env) as process:
        try:
            assert process.stdout is not None
            yield next(line for line in process.stdout if "#token=" in line).split()[-1]
        finally:
            process.terminate()


@contextmanager
def opened(browser: Browser, address: str, place: str, size: tuple[int, int], **options: Any) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": size[0], "height": size[1]}, **options)
    page = context.new_page()
    page.goto(address)
    page.locator(".sum").first.wait_for()
    page.goto(f"{address.partition('#')[0]}{place}")
    # As if its address was opened: a picture that is on the page already stays where it is under a selection.
    page.reload()
    page.locator(".pending-pods, .verdict, .figures, .charts, .node-cells").first.wait_for()
    # The queue is asked for once the plan is there.
    page.wait_for_timeout(800)
    yield page
    context.close()


def _workbench(**change: Any) -> str:
    return f"#/workbench?change={json.dumps(change, separators=(',', ':'))}"


def take(browser: Browser, out: Path, folder: Path, week: Sequence[Path]) -> None:
    (folder / "cluster.json").write_text(json.dumps(cluster()))
    trial = _workbench(addNodes=[{"count": 2, "like": "node-a1"}], remove=["node-b1"])
    pictures = {
        "plan": ("#/plan", (1200, 760), {}),
        "plan-dark": ("#/plan?select=node:node-b4", (1200, 760), {"color_scheme": "dark"}),
        "phone": ("#/plan", (390, 780), {}),
        "room": ("#/room", (1200, 900), {}),
        "pod": ("#/pod/shop/web-25", (1100, 700), {}),
        "workbench": (trial, (1360, 1010), {}),
        "rebalance": (_workbench(rebalance="free-nodes=9"), (1360, 1290), {}),
    }
    with served("-f", "cluster.json", folder=folder) as address:
        for name, (place, size, options) in pictures.items():
            with opened(browser, address, place, size, **options) as page:
                page.screenshot(path=out / f"page-{name}.png")
    (folder / "rush.yaml").write_text(SCENARIO)
    (folder / "packing.yaml").write_text(PACKING)
    for name, options in (("spread", ()), ("packed", ("--config", "packing.yaml"))):
        command = [sys.executable, "-m", "stowplan", "simulate", "rush.yaml", "--quiet", "--out", name, *options]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    with (
        served("--simulation", "spread", "--simulation", "packed", folder=folder) as address,
        opened(browser, address, "#/time?at=2026-01-01T00:52:00Z", (1360, 1010)) as page,
    ):
        page.screenshot(path=out / "page-time.png")
    for path in week:
        take_week(browser, out, folder, path)
    context = browser.new_context(viewport={"width": 1100, "height": 1000})
    page = context.new_page()
    page.goto((folder / "spread/report.html").as_uri())
    page.locator("svg").first.wait_for()
    page.screenshot(path=out / "report.png")
    context.close()


def take_week(browser: Browser, out: Path, folder: Path, trace: Path) -> None:
    scenario = yaml.safe_load(WEEK.read_text())
    shutil.copy(trace, folder / "week.csv")
    for name, events in (("without", []), ("with", scenario["events"])):
        (folder / f"{name}.yaml").write_text(yaml.safe_dump({**scenario, "events": events}))
        command = [sys.executable, "-m", "stowplan", "simulate", f"{name}.yaml", "--quiet", "--out", name]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    with (
        served("--simulation", "without", "--simulation", "with", folder=folder) as address,
        opened(browser, address, "#/time?at=2026-01-06T12:00:00Z", (1360, 1010)) as page,
    ):
        page.screenshot(path=out / "rebalance-week.png")


def main() -> None:
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if path is None:
        sys.exit("chromium is not installed")
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        take(browser, out, Path(folder), [*map(Path, sys.argv[2:])])
        browser.close()


if __name__ == "__main__":
    main()
