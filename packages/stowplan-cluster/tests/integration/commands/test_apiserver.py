"""`stowplan apiserver` as a process: options, files, termination."""

import json
import os
import signal
import sys
from contextlib import contextmanager

import pytest

from support.api import manifests
from support.processes import cluster_commands as commands
from support.processes.cluster_commands import serving
from support.processes.servers import running

NODE = (
    "apiVersion: v1\nkind: Node\nmetadata:\n  name: big\n  labels: {row: 'r{zone}'}\nstatus:\n  capacity: {cpu: '64'}\n"
)


@contextmanager
def server(folder, *args):
    with serving("apiserver", folder, *args) as (process, client, _):
        yield process, client


def refused(*args, cwd):
    return commands.refused("apiserver", *args, cwd=cwd)


def test_serves_nodes_of_a_template_and_manifests(tmp_path):
    (tmp_path / "node.yaml").write_text(NODE)
    (tmp_path / "more.json").write_text(json.dumps(manifests.config_map(a="1")))
    options = ["--nodes=3", f"--node-template={tmp_path / 'node.yaml'}", f"--filename={tmp_path / 'more.json'}"]
    with server(tmp_path, *options) as (_, client):
        nodes = client("/api/v1/nodes")["items"]
        assert [node["metadata"]["name"] for node in nodes] == ["big-0000", "big-0001", "big-0002"]
        assert [node["metadata"]["labels"]["row"] for node in nodes] == ["ra", "rb", "rc"]
        assert "settings" in client.names("/api/v1/namespaces/default/configmaps")


def test_the_kubeconfig_is_private_and_removed_at_exit(tmp_path):
    with server(tmp_path, "--controllers=") as (process, client):
        path = tmp_path / "kubeconfig"
        assert path.stat().st_mode & 0o077 == 0
        assert client.url.startswith("https://127.0.0.1:")
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
        assert not path.exists()


def test_a_signal_as_soon_as_the_kubeconfig_exists(tmp_path):
    path, log = tmp_path / "kubeconfig", tmp_path / "log"
    command = [sys.executable, "-m", "stowplan", "apiserver", f"--kubeconfig-out={path}", "--controllers="]
    with running(command, log) as process:
        while not path.exists():
            assert process.poll() is None, log.read_text()
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        assert not path.exists()


def test_a_killed_server_loses_nothing(tmp_path):
    state = f"--state={tmp_path / 'state'}"
    with server(tmp_path, state, "--controllers=") as (process, client):
        token = client.headers
        for number in range(20):
            client("/api/v1/namespaces/default/configmaps", manifests.config_map(f"c-{number}"))
        process.kill()
        process.wait(20)
    (tmp_path / "kubeconfig").unlink()
    with server(tmp_path, state, "--controllers=") as (_, client):
        assert set(client.names("/api/v1/namespaces/default/configmaps")) >= {f"c-{number}" for number in range(20)}
        assert client.headers == token, "the kubeconfig of before stays good"


class TestRefusals:
    def test_an_invalid_state_file(self, tmp_path):
        (tmp_path / "notes.txt").write_text("precious\n")
        code, told = refused("--state=notes.txt", cwd=tmp_path)
        assert code == 2
        assert "notes.txt, line 1: not a line of a stowplan state file" in told

    @pytest.mark.parametrize(
        ("options", "complaint"),
        [
            (["--controllers=-kubelet"], "-kubelet leaves nothing on; say *,-kubelet"),
            (["--controllers=*,-kubelets"], "unknown controller '-kubelets'"),
            (["--disable-admission-plugins=Magic"], "Magic"),
            (
                ["--without=admission,tables"],
                "--without: no stage is called tables; there are admission",
            ),
            (["--nodes=2", "--node-template=pod.yaml"], "expected a Node of apiVersion v1, got 'Pod'"),
            (["--nodes=2", "--node-template=bad.yaml"], "error: bad.yaml: line 2"),
            (["-f", "invalid.yaml"], "spec.containers: Required value"),
            (["--port=99999"], "99999"),
            (["--bind-address=999.1.1.1"], "--bind-address must be an address of this machine"),
            (["--kubeconfig-out=/nowhere/at/all/config"], "/nowhere/at/all"),
        ],
    )
    def test_invalid_options(self, tmp_path, options, complaint):
        (tmp_path / "node.yaml").write_text(NODE)
        (tmp_path / "pod.yaml").write_text(json.dumps(manifests.pod()))
        (tmp_path / "bad.yaml").write_text("a: [\n")
        (tmp_path / "invalid.yaml").write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {}\n")
        if "/nowhere" in complaint and os.geteuid() == 0:
            options = [f"--kubeconfig-out={tmp_path / 'pod.yaml' / 'config'}"]
            complaint = "pod.yaml"
        code, told = refused(*options, cwd=tmp_path)
        assert code == 2
        assert complaint in told
