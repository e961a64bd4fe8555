"""The Deployment's container as its pod would run it: the image, its user, a read-only root, a service account.

Only the port and the path of the ConfigMap differ from a pod.
"""

import base64
import json
import os
import shutil
import signal
import ssl
import urllib.request

import pytest
import yaml

from support.processes.containers import unprivileged
from support.processes.deployments import MONITORING, named, objects, second_scheduler
from support.processes.servers import free_port, running, until

DEPLOYMENT = named(second_scheduler(), "Deployment", "stowplan")
(CONTAINER,) = DEPLOYMENT["spec"]["template"]["spec"]["containers"]
NAMESPACE = DEPLOYMENT["metadata"]["namespace"]


@pytest.fixture
def secrets(real, tmp_path):
    """What the kubelet mounts: a token, the CA, the namespace."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("mounting requires root")
    account = DEPLOYMENT["spec"]["template"]["spec"]["serviceAccountName"]
    cluster = yaml.safe_load(real.kubeconfig.read_text())["clusters"][0]["cluster"]
    (tmp_path / "token").write_text(real.kubectl("-n", NAMESPACE, "create", "token", account).stdout)
    (tmp_path / "ca.crt").write_bytes(base64.b64decode(cluster["certificate-authority-data"]))
    (tmp_path / "namespace").write_text(NAMESPACE)
    return tmp_path


@pytest.fixture
def installed(real):
    monitoring = [one for one in objects(MONITORING / "podmonitor.yaml") if "monitoring" not in one["apiVersion"]]
    made = [one for one in [*second_scheduler(), *monitoring] if one["kind"] != "Deployment"]
    real.kubectl("apply", "-f", "-", stdin=made)
    yield real
    real.kubectl("delete", "-f", "-", stdin=made)


@pytest.fixture
def mounted(image):
    """The ConfigMap where the container mounts it, below the image's folder."""
    (mount,) = CONTAINER["volumeMounts"]
    folder = image / mount["mountPath"].lstrip("/")
    folder.mkdir(parents=True)
    for name, content in named(second_scheduler(), "ConfigMap", "stowplan")["data"].items():
        (folder / name).write_text(content)
    yield {mount["mountPath"]: str(folder)}
    shutil.rmtree(folder)


def test_it_runs_unchanged(installed, secrets, mounted, settings, tmp_path):
    port, log = free_port(), tmp_path / "log"
    address = yaml.safe_load(installed.kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
    host, _, api_port = address.removeprefix("https://").partition(":")
    arguments = [_moved(argument, mounted) for argument in CONTAINER["args"]]
    command = [*CONTAINER["command"], *arguments, f"--secure-port={port}", "--bind-address=127.0.0.1"]
    in_cluster = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": api_port}
    with running(unprivileged(command, secrets=secrets), log, env={**settings, **in_cluster}, cwd="/") as process:
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            path = CONTAINER[probe]["httpGet"]["path"]
            until(lambda path=path: page(port, path) == "ok", process, log)
        until(lambda: holder(installed), process, log)
        credentials = json.loads(
            installed.kubectl("-n", NAMESPACE, "create", "token", "stowplan-metrics", "-o", "json").stdout
        )
        assert "scheduler_pending_pods" in page(port, "/metrics", token=credentials["status"]["token"])
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0, log.read_text()
    assert not holder(installed)
    assert "rror" not in log.read_text()


def _moved(argument, mounted):
    for path, folder in mounted.items():
        argument = argument.replace(path, folder)
    return argument


def holder(server):
    lease = server.kubectl("-n", NAMESPACE, "get", "lease", "stowplan", "-o", "json", check=False).stdout
    return json.loads(lease)["spec"].get("holderIdentity") if lease else ""


def page(port, path, *, token=""):
    request = urllib.request.Request(f"https://127.0.0.1:{port}{path}")
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, context=ssl._create_unverified_context(), timeout=10) as answer:
            return answer.read().decode()
    except OSError as error:
        return str(error)
