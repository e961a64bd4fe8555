"""The process on a cluster: leading, standing by, terminating on signals, losing its lease."""

import json
import signal
import socket
from contextlib import contextmanager

import pytest

from support.api import manifests
from support.http.kubeconfigs import a_kubeconfig, write_kubeconfig
from support.processes.scheduler_process import ADMIN, kube_scheduler
from support.processes.servers import embedded_server, until


@pytest.fixture
def server(tmp_path):
    with embedded_server(tmp_path, "--nodes=3") as server:
        yield server


@pytest.fixture
def scheduler(server, tmp_path):
    @contextmanager
    def start(*arguments, name="scheduler", **options):
        with kube_scheduler(tmp_path, server.kubeconfig, *arguments, name=name, **options) as started:
            yield started

    return start


def pods(server):
    return server.json("get", "pods")["items"]


def bound(server):
    return {pod["metadata"]["name"] for pod in pods(server) if pod["spec"].get("nodeName")}


def create(server, *names):
    spec = {"containers": [{"name": "c", "image": "nginx", "resources": {"requests": {"cpu": "1m"}}}]}
    server.kubectl("create", "-f", "-", stdin=[{**manifests.pod(name), "spec": spec} for name in names])


def lease(server):
    return server.json("get", "lease", "-n", "kube-system", "kube-scheduler")["spec"]


def all_bound(server, process, number):
    until(lambda: len(bound(server)) == number, process.process, process.log)


def test_a_leader_shuts_down_in_order(server, scheduler):
    create(server, "a", "b")
    with scheduler() as leader:
        all_bound(server, leader, 2)
        assert lease(server)["leaseTransitions"] == 0
        assert leader.end() == 0
    messages = leader.messages()
    assert [message for message in messages if message in ORDER] == ORDER
    assert messages[-1] == "Requested to terminate, exiting"
    assert lease(server)["holderIdentity"] == ""
    assert len(server.json("get", "events", "--field-selector=reason=Scheduled")["items"]) == 2


def scheduling_attempts(scheduler):
    entries = map(json.loads, scheduler.log.read_text().splitlines())
    return [entry["pod"]["name"] for entry in entries if entry["msg"] == "Attempting to schedule pod"]


ORDER = [
    "Starting Kubernetes Scheduler",
    "Handlers synced",
    "Attempting to acquire leader lease...",
    "Successfully acquired lease",
    "[graceful-termination] secure server has stopped listening",
    "[graceful-termination] secure server is exiting",
    "Requested to terminate, exiting",
]


def test_a_standby_takes_over_when_the_leader_terminates(server, scheduler):
    with scheduler() as leader, scheduler(name="standby") as standby:
        first, second = leader, standby
        until(lambda: leader.said("acquired lease") or standby.said("acquired lease"), leader.process, leader.log)
        if standby.said("Successfully acquired lease"):
            first, second = standby, leader
        second.until("Handlers synced")
        assert second.ask("/readyz")[0] == 200
        assert second.ask("/metrics/resources", who=ADMIN)[2] == ""
        create(server, "a")
        all_bound(server, first, 1)
        assert first.end() == 0
        create(server, "b")
        second.until("Successfully acquired lease")
        all_bound(server, second, 2)
        assert lease(server)["leaseTransitions"] == 1
    assert scheduling_attempts(first)[0] == "a"
    assert scheduling_attempts(second) == ["b"]


def test_a_terminating_standby_does_not_touch_the_lease(server, scheduler):
    with scheduler() as leader:
        leader.until("Successfully acquired lease")
        holder = lease(server)["holderIdentity"]
        with scheduler(name="standby") as standby:
            standby.until("Attempting to acquire leader lease...")
            assert standby.end() == 0
        assert standby.messages()[-1] == "Requested to terminate, exiting"
        assert lease(server)["holderIdentity"] == holder


def test_it_exits_if_another_takes_the_lease(server, scheduler):
    with scheduler("--leader-elect-retry-period=200ms") as leader:
        leader.until("Successfully acquired lease")
        theft = {"spec": {"holderIdentity": "thief", "leaseDurationSeconds": 3600}}
        server.kubectl("patch", "lease", "-n", "kube-system", "kube-scheduler", "--type=merge", "-p", json.dumps(theft))
        assert leader.process.wait(30) == 1
    assert leader.messages()[-1] == "Leaderelection lost"
    assert lease(server)["holderIdentity"] == "thief"


def test_without_leader_election(server, scheduler):
    create(server, "a")
    with scheduler("--leader-elect=false") as alone:
        all_bound(server, alone, 1)
        assert alone.ask("/healthz?verbose")[2] == "[+]ping ok\nhealthz check passed\n"
        assert alone.end(signal.SIGINT) == 1
    last = json.loads(alone.log.read_text().splitlines()[-1])
    assert (last["msg"], last["err"]) == ("command failed", "finished without leader elect")


def test_a_standby_can_be_set_to_keep_no_cluster_state(server, scheduler, tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        f"delayCacheUntilActive: true\nclientConnection: {{kubeconfig: {server.kubeconfig}}}\n"
    )
    with scheduler() as leader:
        leader.until("Successfully acquired lease")
        with scheduler(f"--config={config}", name="standby") as standby:
            standby.until("Attempting to acquire leader lease...")
            status, _, body = standby.ask("/readyz/sched-handler-sync", who=ADMIN)
            assert (status, body) == (500, "internal server error: handlers are not fully synchronized\n")
            assert leader.end() == 0
            create(server, "a")
            all_bound(server, standby, 1)
            assert standby.ask("/readyz")[0] == 200
    messages = standby.messages()
    wanted = ["Successfully acquired lease", "Starting informers and waiting for sync...", "Handlers synced"]
    assert [message for message in messages if message in (*wanted, "Sync completed")] == [*wanted, "Sync completed"]


def test_a_signal_dumps_its_state(server, scheduler):
    create(server, "a")
    with scheduler() as leader:
        all_bound(server, leader, 1)
        leader.process.send_signal(signal.SIGUSR2)
        leader.until("Dump of cached NodeInfo")
        leader.until("Dump of scheduling queue")
        create(server, "b")
        all_bound(server, leader, 2)


def test_termination_while_it_waits_for_a_response(tmp_path):
    """At startup, while it reads the authentication ConfigMap."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        where = f"http://127.0.0.1:{silent.getsockname()[1]}"
        kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", a_kubeconfig(cluster={"server": where}))
        with kube_scheduler(
            tmp_path, kubeconfig, "--authentication-tolerate-lookup-failure=false", name="patient"
        ) as patient:
            asking, _ = silent.accept()
            with asking:
                assert patient.end() == 0
    assert patient.messages()[-1] == "Requested to terminate, exiting"
    assert not patient.said("Starting Kubernetes Scheduler")
