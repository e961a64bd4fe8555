"""The lease moves from our process to another implementation and back: a real kube-scheduler if KUBEBUILDER_ASSETS has
one.

Otherwise it is a fake that handles the Lease as upstream does and schedules nothing.
"""

import itertools
import signal
import threading
import time
from contextlib import contextmanager

import pytest
import yaml

from stowplan.kube.api.meta import micro_timestamp, parse_timestamp
from support.api.manifests import node
from support.chaos.outside_view import LEASES, Cluster
from support.chaos.replicas import DEADLINE, DURATION, LONG, RETRY, pods_arriving, report_gap
from support.processes.servers import assets, embedded_server, real_server, running

REAL = assets() is not None and (assets() / "kube-scheduler").exists()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("foreign")
    with real_server(folder, assets()) if REAL else embedded_server(folder, "--controllers=") as server:
        with Cluster(server.kubeconfig) as cluster:
            for i in range(30):
                _add_node(cluster, f"n{i}")
        yield server


def _add_node(cluster, name):
    cluster.request("POST", "/api/v1/nodes", node(name))
    path = f"/api/v1/nodes/{name}"
    # No controller removes the taint here.
    made = cluster.get(path)
    made["spec"]["taints"] = []
    made = cluster.request("PUT", path, made)
    cluster.request("PUT", f"{path}/status", {**made, "status": node(name)["status"]})


class Holder:
    """Contends for a Lease as client-go does, over a line of its own; schedules nothing."""

    def __init__(self, replicas, line):
        self.path = f"{LEASES}/{replicas.lease}"
        self._cluster = Cluster(line.kubeconfig)
        self._seen = (None, 0.0)
        self._over, self._releases = threading.Event(), False
        self.leads = threading.Event()
        self._thread = threading.Thread(target=self._contend)
        self._thread.start()

    def end(self, number):
        self._releases = number == signal.SIGTERM
        self._over.set()
        self._thread.join(20)

    def _contend(self):
        while not self._over.wait(RETRY):
            try:
                self._try()
            except AssertionError:
                # Another client was faster, or the Lease does not exist yet.
                self.leads.clear()
        if self._releases and self.leads.is_set():
            lease = self._cluster.get(self.path)
            self._put(lease, "", 1)

    def _try(self):
        lease = self._cluster.get(self.path)
        spec = lease["spec"]
        if spec != self._seen[0]:
            self._seen = (spec, time.monotonic())
        holder = spec.get("holderIdentity")
        if holder in (None, "", "foreign") or time.monotonic() > self._seen[1] + spec["leaseDurationSeconds"]:
            self._put(lease, "foreign", int(DURATION))
            self.leads.set()

    def _put(self, lease, holder, seconds):
        now = micro_timestamp(time.time())
        changes = lease["spec"].get("holderIdentity") != holder
        lease["spec"] |= {
            "holderIdentity": holder,
            "leaseDurationSeconds": seconds,
            "renewTime": now,
            "leaseTransitions": lease["spec"].get("leaseTransitions", 0) + changes,
        }
        lease["spec"] |= {"acquireTime": now} if changes else {}
        self._cluster.request("PUT", self.path, lease)

    def close(self):
        self.end(signal.SIGKILL)
        self._cluster.__exit__()


class KubeScheduler:
    """A real kube-scheduler process."""

    def __init__(self, process, log):
        self._process, self._log = process, log
        self.leads = self

    def is_set(self):
        return "successfully acquired lease" in self._log.read_text(errors="replace").lower()

    def end(self, number):
        self._process.send_signal(number)
        self._process.wait(20)


@contextmanager
def other_scheduler(replicas, folder):
    line = replicas.lines.new("foreign")
    if not REAL:
        holder = Holder(replicas, line)
        try:
            yield holder
        finally:
            holder.close()
        return
    config = folder / "foreign.yaml"
    config.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                # Plain HTTP, so that its requests can be read.
                "clientConnection": {"kubeconfig": str(line.kubeconfig), "contentType": "application/json"},
                "leaderElection": {
                    "leaderElect": True,
                    "resourceName": replicas.lease,
                    "leaseDuration": f"{DURATION}s",
                    "renewDeadline": f"{DEADLINE}s",
                    "retryPeriod": f"{RETRY}s",
                },
            }
        )
    )
    log = folder / "foreign.log"
    command = [assets() / "kube-scheduler", f"--config={config}", "--secure-port=0", "-v=2"]
    with running(command, log) as process:
        yield KubeScheduler(process, log)


def seconds_between_holders(replicas):
    """From the last renewal of each holder to the first of the next, by the Lease's history."""
    records = [record for record in tuple(replicas.cluster.records) if record[2] == replicas.lease and record[1]]
    return [
        parse_timestamp(after[1]) - parse_timestamp(before[1])
        for before, after in itertools.pairwise(records)
        if before[0] != after[0] and after[0]
    ]


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGKILL, marks=LONG)], ids=["SIGTERM", "SIGKILL"]
)
def test_the_lease_moves_to_another_implementation_and_back(replicas, tmp_path, number):
    ours = replicas.start("a")
    ours.until("Successfully acquired lease")
    with pods_arriving(replicas.cluster) as made:
        replicas.cluster.until(lambda: len(made) > 20 and replicas.lines.binds("a"))
        with other_scheduler(replicas, tmp_path) as other:
            ours.process.send_signal(number)
            ours.process.wait(20)
            replicas.cluster.until(other.leads.is_set)
            again = replicas.start("b")
            again.until("Attempting to acquire leader lease")
            if REAL:
                replicas.cluster.until(lambda: len(replicas.lines.binds("foreign")) > 5)
            other.end(number)
            again.until("Successfully acquired lease")
            replicas.cluster.until(lambda: len(replicas.lines.binds("b")) > 20)
    changes = replicas.check()
    assert [line for _, line in changes] == ["a", "foreign", "b"]
    for what, gap in zip(("to another's", "back to ours"), seconds_between_holders(replicas), strict=True):
        report_gap(f"{number.name}, {what}, by the records", gap)
        if number == signal.SIGKILL:
            assert gap >= DURATION
