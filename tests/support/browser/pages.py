"""The page as commands serve and save it."""

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from functools import partial

from stowplan.app.daemon.plugin_registry import registry_with
from stowplan.app.sources.cluster_source import ClusterSource
from stowplan.ask.offline import Cluster
from stowplan.kube.config import DEFAULT_FEATURES
from stowplan.kube.timing.waits import WaitingPods
from stowplan.ui.cluster_inspection import ClusterInspection
from stowplan.ui.plan import plan_of
from stowplan.ui.saved_copy import save_copy
from stowplan.ui.source_records import SourceRecord, configuration_record
from stowplan.ui.timeline import Run, timeline_of
from stowplan.ui.timeline_routes import Timelines
from stowplan_lab import simulate_scenario
from support.processes import forked
from support.what_if.objects import node, owned, pod

#: A scenario in which eight pods are created, and a configuration that packs them instead of spreading them.
SCENARIO = """
name: rush
duration: 100
cluster:
  groups:
  - {name: pool, count: 4, capacity: {cpu: "8", memory: 32Gi, pods: "20"}}
workloads:
- name: web
  manifest: {kind: Pod, spec: {containers: [{name: c, image: i, resources: {requests: {cpu: "2", memory: 1Gi}}}]}}
  every: 10s
  count: 8
events:
- {at: 50s, resize: {group: pool, count: 5}}
"""
PACKING = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: default-scheduler
    pluginConfig:
      - name: NodeResourcesFit
        args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
    plugins: {score: {disabled: [{name: NodeResourcesBalancedAllocation}]}}
"""


def cluster():
    """Two zones and six nodes, one of them cordoned; running pods of two workloads; pending pods: one too large, one
    gated, one that fits."""
    nodes = [node(f"node-{i}", zone="xy"[i % 2], unschedulable=i == 5) for i in range(6)]
    web = [owned(pod(f"web-{i}", nodeName=f"node-{i % 5}", cpu="500m")) for i in range(10)]
    data = [owned(pod(f"db-{i}", nodeName=f"node-{i}", cpu="2"), kind="StatefulSet", name="db") for i in range(3)]
    gates = {"schedulingGates": [{"name": "example.com/wait"}]}
    return [*nodes, *web, *data, pod("big", cpu="64"), pod("gated", **gates), pod("small")]


@contextmanager
def served(folder, objects, *options):
    """The URL of `stowplan ui` for some objects."""
    file = folder / "cluster.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    with run("ui", "-f", str(file), *options) as said:
        yield said.split()[-1]


@contextmanager
def run(*arguments, errors=None):
    """Runs a command and yields the first line of its output that has the URL of the page; `errors`: a file."""
    command = [sys.executable, "-m", "stowplan", *arguments]
    env = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with forked.ForkedProcess(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=env) as process:
        try:
            yield next(line for line in process.stdout if "#token=" in line)
        finally:
            process.terminate()
            process.communicate(timeout=20)


def save_page(folder, objects, *, title):
    """Saves a copy with two timelines that end as they begin; returns the file to open."""
    about = ClusterSource(Cluster(objects), {})
    timelines = Timelines(
        {f"{which} {title}": partial(_standing_still, about.engine.state) for which in ("one", "other")}
    )
    save_copy(
        folder / "copy.html",
        plan_of(about.engine.state),
        source=SourceRecord(
            mode="static",
            title=title,
            can=("plan", "explain", "pending", "configuration", "time"),
            timelines=timelines.names,
        ),
        configuration=configuration_record(about.cluster.config, registry_with(()).declarations, DEFAULT_FEATURES),
        answers=ClusterInspection(about),
        timelines=timelines,
    )
    return folder / "copy.html"


def _standing_still(state):
    return timeline_of([Run(state, [1.0, 2.0])], WaitingPods())


def simulated(folder):
    """Two folders of results: the same pods spread, and packed."""
    (folder / "rush.yaml").write_text(SCENARIO)
    (folder / "packing.yaml").write_text(PACKING)
    simulate_scenario(folder / "rush.yaml", folder=folder / "spread")
    simulate_scenario(folder / "rush.yaml", folder=folder / "packed", config=folder / "packing.yaml")
    return folder / "spread", folder / "packed"
