"""`stowplan up` as a process: pods are scheduled, options reach the scheduler, and it always terminates cleanly."""

import json
import os
import signal
import socket
import sys
from contextlib import contextmanager

import pytest
import yaml

from stowplan_cluster.front.credentials import running_server_url
from support.api import manifests
from support.http.http_errors import http_error
from support.processes import cluster_commands as commands
from support.processes import forked
from support.processes.cluster_commands import serving

PODS = "/api/v1/namespaces/default/pods"
STUBBORN = """
import asyncio

from stowplan.plugins import PreBindPlugin


class Stubborn(PreBindPlugin):
    name = "Stubborn"

    async def pre_bind(self, state, pod, node_name):
        print(f"holding {pod.key} on {node_name}", flush=True)
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                print("does not let go", flush=True)
"""


@contextmanager
def up(folder, *args, **options):
    with serving("up", folder, *args, **options) as served:
        yield served


def refused(*args, cwd):
    return commands.refused("up", *args, cwd=cwd)


def configuration(**profile):
    return json.dumps(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [profile],
        }
    )


def pod(name="web", **spec):
    return manifests.pod(name, **spec)


def running(count):
    """Whether that many pods are running."""
    return lambda pods: sum(one.get("status", {}).get("phase") == "Running" for one in pods.values()) == count


def ended(process, log):
    """Exit code and output."""
    code = process.wait(20)
    said = log.read_text()
    assert "Traceback" not in said
    return code, said


def test_a_deployment_runs(tmp_path):
    with up(tmp_path) as (_, client, log):
        template = {"metadata": {"labels": {"app": "web"}}, "spec": pod()["spec"]}
        spec = {"replicas": 6, "selector": {"matchLabels": {"app": "web"}}, "template": template}
        deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}
        client("/apis/apps/v1/namespaces/default/deployments", deployment)
        pods = client.until(PODS, running(6)).values()
        assert {one["spec"]["nodeName"] for one in pods} == {"node-0000", "node-0001", "node-0002"}
        said = log.read_text()
        assert said.startswith(f"Serving on {client.url}: 3 nodes, 0 pods\n")
        assert f"  export KUBECONFIG={tmp_path / 'kubeconfig'}\n" in said
        assert "  kubectl create deployment web " in said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it(tmp_path, number):
    with up(tmp_path) as (process, _, log):
        process.send_signal(number)
        code, said = ended(process, log)
        assert code == 0
        assert said.endswith("stopped: the cluster is lost; --state FILE would have kept it\n")
        assert not (tmp_path / "kubeconfig").exists()


def test_a_second_signal_ends_it_at_once(tmp_path):
    (tmp_path / "stubborn.py").write_text(STUBBORN)
    (tmp_path / "config.json").write_text(configuration(plugins={"preBind": {"enabled": [{"name": "Stubborn"}]}}))
    options = ["--plugin=stubborn:Stubborn", "--config=config.json"]
    with up(tmp_path, *options, cwd=tmp_path) as (process, client, log):
        client(PODS, pod())
        commands.until(lambda: "holding default/web on node-" in log.read_text(), process, log)
        process.send_signal(signal.SIGINT)
        commands.until(lambda: "does not let go" in log.read_text(), process, log)
        assert process.poll() is None
        assert not (tmp_path / "kubeconfig").exists(), "the kubeconfig of a terminating cluster still exists"
        process.send_signal(signal.SIGINT)
        code, _ = ended(process, log)
        assert code == 1


def test_cluster_state_is_kept_in_a_file(tmp_path):
    state = f"--state={tmp_path / 'state'}"
    with up(tmp_path, state, "--nodes=2") as (process, client, log):
        client(PODS, pod())
        before = client.until(PODS, running(1))
        process.send_signal(signal.SIGTERM)
        code, said = ended(process, log)
        assert (code, said.splitlines()[-1]) == (
            0,
            f"stopped: {tmp_path / 'state'} has the cluster, the same command continues with it",
        )
    with up(tmp_path, state) as (_, client, log):
        assert log.read_text().startswith(f"Serving on {client.url}: 2 nodes, 1 pod\n"), "nodes were added"
        assert client(f"{PODS}/web")["spec"] == before["web"]["spec"]
        client(PODS, pod("second"))
        client.until(PODS, running(2))


def test_manifests_may_contain_the_nodes(tmp_path):
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "mine"}, "status": {"capacity": {"cpu": "1"}}}
    (tmp_path / "objects.yaml").write_text(yaml.safe_dump_all([node, pod()]))
    with (tmp_path / "objects.yaml").open() as stdin, up(tmp_path, "-f", "-", stdin=stdin) as (_, client, _):
        assert client.names("/api/v1/nodes") == ["mine"]
        commands_of = client.until(PODS, lambda pods: pods["web"].get("status", {}).get("conditions"))
        assert commands_of["web"]["metadata"]["name"] == "web"


def test_scheduler_stories_are_served_at_the_same_address(tmp_path):
    with up(tmp_path, "--nodes=1") as (_, client, log):
        client(PODS, pod(nodeSelector={"disk": "ssd"}))
        client.until(PODS, lambda pods: pods["web"].get("status", {}).get("conditions"))
        assert [one["pod"] for one in client("/stowplan/pending")["pods"]] == ["default/web"]
        told = client("/stowplan/explain/default/web")
        assert told["scheduler"]["place"] == "unschedulable"
        with http_error(404):
            client("/stowplan/stories/default/nobody")
        with http_error(405):
            client("/stowplan/pending", {})
        # The kubeconfig that it writes is all that the commands need.
        kubeconfig = {**os.environ, "KUBECONFIG": str(tmp_path / "kubeconfig")}

        def told_by_command(*words):
            line = [sys.executable, "-m", "stowplan", *words, "--from-scheduler", "auto"]
            return forked.run(line, capture_output=True, text=True, env=kubeconfig, timeout=60, check=True).stdout

        explained = told_by_command("explain", "pod", "web")
        assert "What this scheduler knows of it\n  unschedulable (1 attempt" in explained
        # With its configuration and feature gates.
        assert told_by_command("drain", "node-0000").startswith("drain of node-0000: no pod")
        assert "stowplan explain --from-scheduler auto pod NAME" in log.read_text()


HOLDING = """
from stowplan.plugins import Code, PermitPlugin, Status


class Holding(PermitPlugin):
    name = "Holding"

    def permit(self, state, pod, node_name):
        return Status(Code.Wait), 600.0
"""


def test_explain_finds_a_pod_waiting_on_permit_without_from_scheduler(tmp_path):
    (tmp_path / "holding.py").write_text(HOLDING)
    (tmp_path / "config.json").write_text(configuration(plugins={"permit": {"enabled": [{"name": "Holding"}]}}))
    with up(tmp_path, "--nodes=1", "--config=config.json", "--plugin=holding:Holding", cwd=tmp_path) as (
        _,
        client,
        _log,
    ):
        client(PODS, pod())

        def held():
            return client("/stowplan/explain/default/web")["scheduler"]["place"] == "waits on Permit for"

        client.until(PODS, lambda pods: held())
        line = [sys.executable, "-m", "stowplan", "explain", "pod", "web"]
        kubeconfig = {**os.environ, "KUBECONFIG": str(tmp_path / "kubeconfig")}
        asked = forked.run(line, capture_output=True, text=True, env=kubeconfig, timeout=60, check=True)
        # One more of the same kind, and one that fits nowhere.
        client(PODS, pod("web-2", labels={"app": "web"}))
        client(PODS, pod("choosy", nodeSelector={"no": "such"}))
        client.until(PODS, lambda pods: len(client("/stowplan/pending").get("onPermit", ())) == 2 and "choosy" in pods)
        waiting = client("/stowplan/pending")["onPermit"]
        line = [sys.executable, "-m", "stowplan", "explain", "pending"]
        many = forked.run(line, capture_output=True, text=True, env=kubeconfig, timeout=60, check=True)
    assert asked.stdout.startswith("default/web waits on Permit for node-0000 and would go there again: ")
    assert "--from-scheduler URL" not in asked.stdout
    assert waiting[0] == {"pod": "default/web", "node": "node-0000", "plugins": ["Holding"]}
    assert many.stdout.startswith("3 pods: 2 wait on Permit, 1 fits nowhere\n")
    assert "default/web and 1 more like it (default/web-2) wait on Permit for node-0000" in many.stdout
    assert "--from-scheduler URL" not in many.stdout


def test_the_configuration_reaches_the_scheduler(tmp_path):
    (tmp_path / "config.json").write_text(configuration(schedulerName="mine"))
    with up(tmp_path, f"--config={tmp_path / 'config.json'}") as (_, client, log):
        assert ": 3 nodes, 0 pods, scheduling for mine\n" in log.read_text()
        client(PODS, pod("others"))
        client(PODS, pod("ours", schedulerName="mine"))
        pods = client.until(PODS, running(1))
        assert "nodeName" in pods["ours"]["spec"]
        assert "nodeName" not in pods["others"]["spec"]


@pytest.mark.parametrize(
    ("options", "version", "groups"),
    [
        ((), "v1.37.0+stowplan", ["v1beta1", "v1alpha3"]),
        (("--kubernetes-version=1.36",), "v1.36.0+stowplan", ["v1alpha2"]),
        pytest.param(("--emulated-version=1.36",), "v1.36.0+stowplan", ["v1alpha2"], id="that of its scheduler"),
        pytest.param(
            ("--kubernetes-version=1.37", "--emulated-version=1.36"),
            "v1.37.0+stowplan",
            ["v1beta1", "v1alpha3"],
            id="both",
        ),
    ],
)
def test_the_version_of_its_server(tmp_path, options, version, groups):
    with up(tmp_path, *options) as (_, client, _):
        assert client("/version")["gitVersion"] == version
        served = [one["version"] for one in client("/apis/scheduling.k8s.io")["versions"]]
        assert served == ["v1", *groups]
        assert client("/openapi/v3/api/v1")["info"]["version"] == version.partition("+")[0]


@pytest.mark.parametrize(
    ("options", "logged"),
    [
        pytest.param(["-v"], True, id="plain"),
        pytest.param(["-v", "0"], False, id="a low level"),
    ],
)
def test_verbosity(tmp_path, options, logged):
    with up(tmp_path, *options) as (process, client, log):
        client(PODS, pod())
        client.until(PODS, running(1))
        process.send_signal(signal.SIGTERM)
        code, said = ended(process, log)
        assert code == 0
        assert ('] "Successfully bound pod to node" pod="default/web"' in said) == logged


def test_groups_of_nodes(tmp_path):
    limits = "stowplan.io/min-nodes: '2', stowplan.io/max-nodes: '3'"
    (tmp_path / "groups.yaml").write_text(
        f"apiVersion: v1\nkind: Node\nmetadata: {{name: 'small-{{n}}', annotations: {{{limits}}}}}\n"
        "status: {capacity: {cpu: '4', memory: 16Gi, pods: '110'}}\n"
    )
    with up(tmp_path, f"--node-groups={tmp_path / 'groups.yaml'}") as (_, client, _):
        found = client("/api/v1/nodes")["items"]
        assert [node["metadata"]["name"] for node in found] == ["small-0000", "small-0001"]


class TestRefusals:
    @pytest.mark.parametrize(
        ("options", "complaint"),
        [
            (["--plugin=nonsense"], 'plugin "nonsense": want module:Class'),
            (["--plugin=no_such_module:Thing"], "cannot import no_such_module"),
            (["--config=no-such-file"], "no-such-file"),
            (["--config=broken.json"], "error: broken.json: couldn't get version/kind; json parse error"),
            (["--nodes=0", "--node-template=node.yaml"], "--node-template requires --nodes N"),
            (["--nodes=many"], "many"),
            (
                ["--node-groups=node.yaml"],
                "error: node.yaml: node: metadata.annotations: stowplan.io/max-nodes is missing",
            ),
            (["--node-groups=bad.yaml"], 'error: bad.yaml: bad: Node "bad-0000" is invalid: metadata.labels: '),
            (["-f", "missing.yaml"], "missing.yaml"),
            (["--controllers=kubelets"], "unknown controller 'kubelets'"),
            (["--kubeconfig-out=node.yaml"], "was not written by stowplan"),
        ],
    )
    def test_before_anything_is_served(self, run, tmp_path, monkeypatch, options, complaint):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "node.yaml").write_text("apiVersion: v1\nkind: Node\nmetadata: {name: node}\n")
        (tmp_path / "broken.json").write_text("{")
        bad = {"name": "bad", "labels": {"a b": "c"}, "annotations": {"stowplan.io/max-nodes": "1"}}
        (tmp_path / "bad.yaml").write_text(json.dumps({"apiVersion": "v1", "kind": "Node", "metadata": bad}))
        ran = run("up", *options)
        assert (ran.code, ran.out) == (2, "")
        assert complaint in ran.err
        assert not (tmp_path / "stowplan.kubeconfig").exists()

    def test_errors_of_the_scheduler(self, tmp_path):
        extended = json.loads(configuration())
        tls = {"caFile": "no-such-authority.pem"}
        extender = {"urlPrefix": "https://127.0.0.1:1/", "filterVerb": "filter", "enableHTTPS": True, "tlsConfig": tls}
        extended["extenders"] = [extender]
        (tmp_path / "config.json").write_text(json.dumps(extended))
        code, told = refused("--config=config.json", cwd=tmp_path)
        assert code == 2
        assert told.startswith("error: config.json: couldn't build extenders: open no-such-authority.pem: ")

    @pytest.mark.parametrize(
        ("option", "how"),
        [("--port", "--port 0 takes a free port\n"), ("--page-port", "--page-port 0 takes a free one\n")],
    )
    def test_a_port_in_use(self, tmp_path, option, how):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            code, told = refused(f"{option}={taken.getsockname()[1]}", cwd=tmp_path)
        assert code == 2
        assert told.startswith("error: cannot listen")
        assert told.endswith(f"; {how}")
        assert not (tmp_path / "stowplan.kubeconfig").exists()


# --- a second one in the same folder


def test_the_kubeconfig_of_a_running_cluster_is_not_overwritten(tmp_path):
    with up(tmp_path) as (process, client, _):
        before = (tmp_path / "kubeconfig").read_bytes()
        code, said = refused(f"--kubeconfig-out={tmp_path / 'kubeconfig'}", cwd=tmp_path)
        assert code == 2
        assert f"belongs to the cluster at {client.url}, which still runs" in said
        assert "--kubeconfig-out FILE" in said
        assert (tmp_path / "kubeconfig").read_bytes() == before
        assert client.names("/api/v1/nodes")
        process.kill()
        process.wait(20)
    assert not running_server_url(tmp_path / "kubeconfig"), "the kubeconfig of a killed cluster is not reused"
