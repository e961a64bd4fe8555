"""`stowplan demo` as a process: its output, the files it saves, and its cleanup."""

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
from urllib.parse import urlsplit

import pytest

from stowplan.ask.explain.text.tables import plain
from stowplan.ask.loading.admission import admit
from stowplan.ask.offline import Cluster
from stowplan.kube.api.decode import decode_object
from stowplan.testing import a_node, a_pod
from stowplan_cluster.commands import demo as demonstration
from stowplan_cluster.commands import demo_cluster
from stowplan_cluster.commands.demo import DemoError, picture
from stowplan_cluster.commands.pod_changes import PodWatcher

DEMO = [sys.executable, "-m", "stowplan", "demo"]
#: Matches a line about a pod.
NEWS = re.compile(r"^ +\d+\.\d\d s  (?P<pod>\S+) (?:→ (?P<node>\S+)|(?P<other>waits|gives way).*)$")


class Shown:
    def __init__(self, folder):
        self.file = folder / "demo.yaml"
        result = subprocess.run(
            [*DEMO, "--save", str(self.file)], capture_output=True, text=True, timeout=120, cwd=folder
        )
        self.code, self.out, self.err = result.returncode, result.stdout, result.stderr
        self.news = [found for line in self.out.splitlines() if (found := NEWS.match(line))]
        self.url = re.search(r"^Serving on (\S+): 9 nodes, 0 pods$", self.out, re.MULTILINE)[1]

    def chapter(self, title):
        return self.out.partition(f"── {title}")[2].partition("\n── ")[0]


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    shown = Shown(tmp_path_factory.mktemp("demo"))
    assert shown.code == 0, shown.err
    return shown


def nobody_serves(url):
    address = urlsplit(url)
    with socket.socket() as probe:
        return probe.connect_ex((address.hostname, address.port)) != 0


def test_each_pod_is_printed_when_it_is_bound(shown):
    placed = [found["pod"] for found in shown.news if found["node"]]
    total = demo_cluster.pod_count([*demo_cluster.workload(), *demo_cluster.late_workloads()])
    assert len(placed) == len(set(placed)) >= total - 1 - len(demo_cluster.MAY_WAIT)
    assert {"shop/db-0", "shop/cache-2", "ml/train-1"} <= set(placed)
    assert any(pod.startswith("shop/checkout-") for pod in placed)


def test_the_late_pod_preempts_a_batch_pod(shown):
    assert [found["pod"].startswith("batch/crunch-") for found in shown.news if found["other"] == "gives way"] == [True]


def test_the_picture(shown):
    assert re.search(r"^28 pods placed on 9 nodes in \d+\.\d\d s$", shown.out, re.MULTILINE)
    # The width of the columns depends on where the other pods are.
    assert re.search(r"^  gpu-a1   █████░░░░░ +4 of 8  █████░░░░░ +16Gi of 32Gi  train$", shown.out, re.MULTILINE)
    assert re.search(r"^  node-c3 .*  cordoned$", shown.out, re.MULTILINE)


def test_the_waiting_pod_is_explained(shown):
    page = shown.chapter("Why does ml/notebook wait")
    assert "ml/notebook is pending: none of 9 nodes takes it\n" in page
    assert "What the scheduler said\n  PodScheduled=False (Unschedulable) since " in page
    assert "1. tolerate nvidia.com/gpu:NoSchedule to gain 2 nodes (gpu-a1, gpu-b1)\n" in page


def test_saved_files_can_be_explained(shown, run):
    assert re.fullmatch(rf"note: \d+ objects written to {shown.file}\n", shown.err)
    ran = run("explain", "-f", str(shown.file), "--pod", "ml/notebook")
    assert (ran.code, ran.err) == (0, "")
    # The same page as in the demo, except for what only a live cluster knows.
    _, *parts = shown.chapter("Why does ml/notebook wait").strip().split("\n\n")
    assert "\n\n".join(part for part in parts if not part.startswith("What the scheduler said")) == ran.out.strip()


def test_nothing_is_left_behind(shown):
    assert nobody_serves(shown.url)
    assert [path.name for path in shown.file.parent.iterdir()] == ["demo.yaml"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_also_ends_its_cluster(tmp_path, number, code):
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(DEMO, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as process:
        url = next(re.search(r"https://\S+(?=:)", line) for line in process.stdout if "Serving" in line)[0]
        process.send_signal(number)
        process.stdout.read()
        assert (process.wait(60), process.stderr.read().strip()) == (code, "")
    assert nobody_serves(url)
    assert list(tmp_path.iterdir()) == []


def test_its_cluster_ends_if_it_is_killed(tmp_path):
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(DEMO, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as process:
        url = next(re.search(r"https://\S+(?=:)", line) for line in process.stdout if "Serving" in line)[0]
        process.kill()
        # The cluster holds the other end of our pipes until it exits.
        process.communicate(timeout=60)
    assert nobody_serves(url)


# -- failures ----------------------------------------------------------------------------------------------------------


def test_a_cluster_that_does_not_start(run, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    ran = run("demo")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == "Error: `stowplan up` ended with exit code 1 before it was ready\n"


def test_invalid_folders_to_save_in(tmp_path, run):
    missing = tmp_path / "no" / "demo.yaml"
    ran = run("demo", "--save", str(missing))
    assert ran.code == 2
    assert ran.err.startswith(f"error: {missing}: No such file or directory")
    assert ran.out == "", "the demo started"


class Silent:
    """An API that accepts all objects and never sends an event."""

    def __init__(self):
        self.created = []

    async def create(self, obj):
        self.created.append(obj)


async def test_it_ends_if_pods_are_not_bound_in_time(monkeypatch):
    monkeypatch.setattr(demonstration, "PATIENCE", 0.0)
    api, watcher = Silent(), PodWatcher(clock=lambda: 0.0, write=lambda line: None)
    watching = asyncio.create_task(asyncio.Event().wait())
    with pytest.raises(DemoError, match=r"after 0 s the pods are not placed:\n  there are 0 pods, expected 28"):
        await demonstration._create(api, demo_cluster.workload(), watcher, watching, 28)
    watching.cancel()
    assert [obj.content for obj in api.created] == demo_cluster.workload()


# -- parts -------------------------------------------------------------------------------------------------------------


def test_the_picture_has_the_allocation_of_nodes():
    nodes = [a_node("empty").allocatable(cpu="2", memory="4Gi"), a_node("full").allocatable(cpu="2", memory="4Gi")]
    pods = [a_pod(f"web-{n}").requests(cpu="1", memory="1Gi").labels(app="web").on("full") for n in range(2)]
    cluster = Cluster(admit(decode_object(built.obj()) for built in (*nodes, *pods)).objects)
    assert plain([picture(cluster.state)]).splitlines() == [
        "  node   cpu                 memory                  pods",
        "  empty  ░░░░░░░░░░  0 of 2  ░░░░░░░░░░    0 of 4Gi  none",
        "  full   ██████████  2 of 2  █████░░░░░  2Gi of 4Gi  web ×2",
    ]
