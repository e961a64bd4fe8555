"""With the rights of deploy/ and no others, on a server that enforces them, the scheduler can do all of its work.

Once as the second scheduler's service account, once as the user in a static pod's kubeconfig.
"""

import json
import signal
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from support.processes.deployments import MONITORING, SECOND_SCHEDULER, named, objects
from support.processes.servers import Server, free_port, running, until

NAMESPACE = "kube-system"
ACCOUNTS = ["stowplan", "system:kube-scheduler"]
READER = objects(MONITORING / "podmonitor.yaml")


@dataclass
class RunningScheduler:
    server: Server
    port: int
    process: subprocess.Popen
    log: Path
    scheduler_name: str
    lease: str

    def get(self, path, token=""):
        """Status and body of a page of the secure port."""
        request = urllib.request.Request(f"https://127.0.0.1:{self.port}{path}")
        if token:
            request.add_header("Authorization", f"Bearer {token}")
        trusting = ssl._create_unverified_context()
        try:
            with urllib.request.urlopen(request, context=trusting, timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with closing(error):
                return error.code, error.read().decode()
        except OSError as error:
            return 0, str(error)

    def holder(self):
        lease = self.server.kubectl("-n", NAMESPACE, "get", "lease", self.lease, "-o", "json", check=False)
        return json.loads(lease.stdout)["spec"].get("holderIdentity", "") if lease.stdout else ""

    def pod(self, name):
        return self.server.json("-n", "default", "get", "pod", name)

    def wait(self, ready):
        until(ready, self.process, self.log)


def a_pod(name, scheduler_name, *, cpu="100m", priority_class=""):
    requests = {"requests": {"cpu": cpu}}
    spec = {"schedulerName": scheduler_name, "containers": [{"name": "c", "image": "i", "resources": requests}]}
    if priority_class:
        spec["priorityClassName"] = priority_class
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def a_priority_class(name, value):
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }


@pytest.fixture(scope="module")
def prepared(real):
    """A node, priority classes, the roles of deploy/, and a user who may read metrics."""
    if real.kubectl("get", "namespace", NAMESPACE, check=False).returncode:
        real.kubectl("create", "namespace", NAMESPACE)
    monitors = [one for one in READER if not one["apiVersion"].startswith("monitoring.")]
    installed = [*objects(*sorted(SECOND_SCHEDULER.glob("*.yaml"))), *monitors]
    real.kubectl("apply", "-f", "-", stdin=installed)
    real.kubectl("create", "-f", "-", stdin=[{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}])
    ready = {"type": "Ready", "status": "True"}
    status = {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "10"}, "conditions": [ready]}
    patch = json.dumps({"status": status})
    real.kubectl("patch", "node", "n1", "--subresource=status", "--type=merge", "-p", patch)
    real.kubectl("patch", "node", "n1", "--type=merge", "-p", '{"spec": {"taints": null}}')
    real.kubectl("create", "-f", "-", stdin=[a_priority_class("low", 1), a_priority_class("high", 1000)])
    real.kubectl("-n", NAMESPACE, "create", "serviceaccount", "nobody")
    yield real
    real.kubectl("delete", "node/n1", "priorityclass/low", "priorityclass/high")
    real.kubectl("-n", NAMESPACE, "delete", "serviceaccount", "nobody")
    real.kubectl("delete", "-f", "-", stdin=installed)


def token(server, account):
    return server.kubectl("-n", NAMESPACE, "create", "token", account).stdout.strip()


def kubeconfig_of(server, account, file):
    """With a token of the service account, or as the administrator impersonating that user."""
    config = yaml.safe_load(server.kubeconfig.read_text())
    user = config["users"][0]["user"]
    if account.startswith("system:"):
        user["as"] = account
    else:
        user["token"] = token(server, account)
    file.write_text(yaml.safe_dump(config))
    return file


@pytest.fixture(scope="module", params=ACCOUNTS)
def scheduler(request, prepared, tmp_path_factory):
    folder = tmp_path_factory.mktemp("scheduler")
    kubeconfig = kubeconfig_of(prepared, request.param, folder / "kubeconfig")
    own = request.param == "stowplan"
    config = yaml.safe_load(
        named(objects(SECOND_SCHEDULER / "deployment.yaml"), "ConfigMap", "stowplan")["data"]["config.yaml"]
    )
    if not own:
        del config["leaderElection"], config["profiles"]
    config["clientConnection"] = {"kubeconfig": str(kubeconfig)}
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    port, log = free_port(), folder / "log"
    command = [sys.executable, "-m", "stowplan.app.cli.kube_scheduler", f"--config={folder / 'config.yaml'}", "-v=2"]
    command += ["--bind-address=127.0.0.1", f"--secure-port={port}"]
    command += [f"--{kind}-kubeconfig={kubeconfig}" for kind in ("authentication", "authorization")]
    with running(command, log) as process:
        name, lease = ("stowplan", "stowplan") if own else ("default-scheduler", "kube-scheduler")
        found = RunningScheduler(prepared, port, process, log, name, lease)
        until(lambda: found.get("/readyz")[1] == "ok" and found.holder(), process, log)
        yield found
        # Checked last: no request was refused for lack of a right.
        assert_nothing_was_forbidden(found)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0, log.read_text()
        assert found.holder() == ""


def assert_nothing_was_forbidden(scheduler):
    text = scheduler.log.read_text()
    assert [line for line in text.splitlines() if "orbidden" in line] == []
    assert "does not serve" not in text


@pytest.fixture
def placed(scheduler):
    """Creates pods for the scheduler, and deletes them afterwards."""

    def create(*pods):
        scheduler.server.kubectl("create", "-f", "-", stdin=list(pods))

    yield create
    scheduler.server.kubectl("-n", "default", "delete", "pod", "--all", "--force", "--grace-period=0")


def test_pods_are_bound_with_events(scheduler, placed):
    placed(a_pod("p", scheduler.scheduler_name))
    scheduler.wait(lambda: scheduler.pod("p")["spec"].get("nodeName") == "n1")
    scheduler.wait(lambda: "Scheduled" in reasons(scheduler, "p"))


def test_preemption_evicts_a_pod(scheduler, placed):
    name = scheduler.scheduler_name
    placed(a_pod("victim", name, cpu="1", priority_class="low"))
    scheduler.wait(lambda: scheduler.pod("victim")["spec"].get("nodeName") == "n1")
    placed(a_pod("preemptor", name, cpu="1", priority_class="high"))
    scheduler.wait(lambda: "deletionTimestamp" in scheduler.pod("victim")["metadata"])
    scheduler.wait(lambda: scheduler.pod("preemptor")["status"].get("nominatedNodeName") == "n1")
    # There is no kubelet to finish it.
    scheduler.server.kubectl("-n", "default", "delete", "pod", "victim", "--force", "--grace-period=0")
    scheduler.wait(lambda: scheduler.pod("preemptor")["spec"].get("nodeName") == "n1")
    scheduler.wait(lambda: "Preempted" in reasons(scheduler, "victim"))
    condition = scheduler.pod("preemptor")["status"]["conditions"]
    assert [one["type"] for one in condition if one["status"] == "True"] == ["PodScheduled"]


def reasons(scheduler, pod):
    selector = f"--field-selector=involvedObject.name={pod}"
    return {one["reason"] for one in scheduler.server.json("-n", "default", "get", "events", selector)["items"]}


def test_the_lease_is_held_and_renewed(scheduler):
    def renewed():
        return scheduler.server.json("-n", NAMESPACE, "get", "lease", scheduler.lease)["spec"]["renewTime"]

    first = renewed()
    scheduler.wait(lambda: renewed() > first)


@pytest.mark.parametrize("path", ["/metrics", "/metrics/resources", "/metrics/slis"])
def test_only_authorized_users_read_metrics(scheduler, path):
    assert scheduler.get(path, token(scheduler.server, "stowplan-metrics"))[0] == 200
    assert scheduler.get(path, token(scheduler.server, "nobody"))[0] == 403
    assert scheduler.get(path, "wrong")[0] == 401
    assert scheduler.get(path)[0] == 403


@pytest.mark.parametrize("path", ["/configz", "/flagz", "/statusz", "/debug/pprof/", "/nothing"])
def test_the_metrics_reader_reads_nothing_else(scheduler, path):
    assert scheduler.get(path, token(scheduler.server, "stowplan-metrics"))[0] == 403


def test_health_is_public(scheduler):
    assert [scheduler.get(path) for path in ("/livez", "/readyz", "/healthz")] == [(200, "ok")] * 3


def test_metrics_have_the_scheduled_pods(scheduler, placed):
    placed(a_pod("counted", scheduler.scheduler_name))
    reader = token(scheduler.server, "stowplan-metrics")

    def pods_are_counted():
        text = scheduler.get("/metrics", reader)[1]
        series = f'scheduler_schedule_attempts_total{{profile="{scheduler.scheduler_name}",result="scheduled"}}'
        return series in text and 'leader_election_master_status{name="kube-scheduler"} 1' in text

    scheduler.wait(pods_are_counted)
