"""kube-scheduler as a process with a memory limit: pods that come and go must leave nothing behind.

Limits of what it remembers about deleted pods are small here, as several thousand pods would only fill them; pods
differ in all ways that fill caches during the warm-up. Each has its own name and labels.
"""

import re
import resource
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.chaos.outside_view import PODS
from support.chaos.witness import Witness
from support.examples import SCALE
from support.processes.scheduler_process import kube_scheduler
from support.processes.servers import embedded_server

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits another process")

WARM, CHURN, ROUND, KINDS = 600, 1600 * SCALE, 100, 300
KB = 1024
#: Memory allowed beyond that of the warm process, and the leak per pod of the leaky variant.
SLACK, LEAKED = 16 * KB * KB, 20 * KB
QUICK = ("--kube-api-qps=100000", "--kube-api-burst=100000")
PROGRAM = """
import sys
from stowplan.net.client.events import event_series
from stowplan.scheduler.cluster import pods_on_nodes
from stowplan.scheduler.inspection.stories import Stories
Stories.__init__.__kwdefaults__.update(pods=100, decisions=100)
pods_on_nodes._IDLE_SHAPES = 20
event_series.MAX_REMEMBERED = 100
{leak}
from stowplan.app.cli.kube_scheduler import main
sys.exit(main())
"""
LEAK = f"""
kept, decided = [], Stories.decided
def leaks(self, outcome):
    kept.append(b"x" * {LEAKED} + outcome.uid.encode())
    decided(self, outcome)
Stories.decided = leaks
"""


def different_pod(n):
    """(whether it fits, a unique pod)."""
    name = f"p{n}"
    kind = n % KINDS
    amounts = {"cpu": f"{1 + n % 97}m", "memory": str(1000 + kind)}
    container = {"name": "c", "image": f"image-{kind}", "resources": {"requests": amounts}}
    spec = {"containers": [container]}
    term = {"labelSelector": {"matchLabels": {"kind": f"k{kind}"}}, "topologyKey": "kubernetes.io/hostname"}
    match n % 6:
        case 1:
            amounts["cpu"] = str(1000 + kind)
        case 2:
            spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        case 3:
            spec["nodeSelector"] = {"no": f"n{kind}"}
        case 4:
            spec["topologySpreadConstraints"] = [{"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **term}]
        case 5:
            container["ports"] = [{"containerPort": 80, "hostPort": 2000 + kind}]
    metadata = {"name": name, "namespace": "default", "labels": {"who": name, "kind": f"k{kind}"}}
    return n % 6 not in (1, 3), {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


class Churn:
    def __init__(self, folder, stack, leak):
        server = stack.enter_context(embedded_server(folder, "--nodes=8", "--controllers="))
        self.witness = stack.enter_context(Witness(server.kubeconfig))
        program = [sys.executable, "-c", PROGRAM.format(leak=leak)]
        self.scheduler = stack.enter_context(kube_scheduler(folder, server.kubeconfig, *QUICK, program=program))
        self.scheduler.until("Successfully acquired lease")
        self.fit = set()
        self._next = 0

    def alive(self):
        return self.scheduler.process.poll() is None

    def memory(self, what):
        status = Path(f"/proc/{self.scheduler.process.pid}/status").read_text()
        return int(re.search(rf"{what}:\s+(\d+)", status)[1]) * KB

    def go_on(self, pods):
        """Until this many pods came and went, or the process died."""
        for _ in range(pods // ROUND):
            made = [different_pod(n) for n in range(self._next, self._next + ROUND)]
            self._next += ROUND
            for fits, pod in made:
                self.witness.request("POST", PODS, pod)
                if fits:
                    self.fit.add(pod["metadata"]["name"])
            self.witness.until(lambda: self.fit <= self.bound() or not self.alive())
            if not self.alive():
                return
            self.witness.delete_pods(*(pod["metadata"]["name"] for _, pod in made))
            try:
                self.scheduler.ask("/healthz")
            except OSError:
                # The process is about to die; if it lives on without answering, that is an error.
                self.scheduler.process.wait(10)
                return

    def bound(self):
        return {name for _, name, _ in tuple(self.witness.bound)}

    def limit(self):
        size = self.memory("VmData") + SLACK
        resource.prlimit(self.scheduler.process.pid, resource.RLIMIT_DATA, (size, size))


def test_it_stays_within_the_memory_limit(tmp_path):
    with ExitStack() as stack:
        churn = Churn(tmp_path, stack, "")
        churn.go_on(WARM)
        churn.limit()
        churn.go_on(CHURN)
        assert churn.alive()
        assert sorted(name for _, name, _ in churn.witness.bound) == sorted(churn.fit)
        assert not churn.witness.wrong
        assert len({holder for holder, _, _ in churn.witness.records if holder}) == 1
        assert not churn.scheduler.said("MemoryError")


def test_a_small_leak_per_pod_exceeds_the_limit(tmp_path):
    with ExitStack() as stack:
        churn = Churn(tmp_path, stack, LEAK)
        churn.go_on(WARM)
        churn.limit()
        churn.go_on(CHURN)
        assert not churn.alive() or churn.scheduler.said("MemoryError")
