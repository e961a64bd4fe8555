"""Completion: by the words before the cursor, as click's scripts request it, and in a real bash."""

import json
import os
import shutil
import subprocess
import sys

import pytest
from click.shell_completion import ShellComplete

from stowplan.cli.main import cli
from stowplan.testing import a_node, a_pod
from support.http.kubeconfigs import a_kubeconfig, write_kubeconfig

OBJECTS = [
    {**a_node("big-1").obj(), "metadata": {"name": "big-1", "labels": {"topology.kubernetes.io/zone": "eu-a"}}},
    a_node("small-1").obj(),
    a_pod("web-0").obj(),
    a_pod("cache-0", namespace="shop").obj(),
]


@pytest.fixture
def cluster(tmp_path):
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": OBJECTS}))
    return str(path)


def offered(*words):
    """The completions of the last word."""
    completion = ShellComplete(cli, {}, "stowplan", "_STOWPLAN_COMPLETE")
    return [(item.type, item.value) for item in completion.get_completions(list(words[:-1]), words[-1])]


def names(*words):
    return [value for _, value in offered(*words)]


def test_commands():
    assert names("exp") == ["explain"]
    assert {"view", "validate", "convert", "diff", "defaults", "explain", "schema"} == set(names("config", ""))
    assert "--kubeconfig" in names("drain", "--kube")
    assert names("completion", "") == ["bash", "zsh", "fish"]


@pytest.mark.parametrize(
    "words",
    [
        ("config", "view", "sched"),
        ("config", "diff", "a.yaml", "b"),
        ("explain", "-f", ""),
        ("explain", "--config", "sched"),
        ("run", "--kubeconfig", ""),
        ("fit", "-f", ""),
        ("what-if", "--apply", "x"),
    ],
)
def test_files(words):
    assert offered(*words) == [("file", words[-1])]


def test_names_of_objects_in_files(cluster):
    assert names("explain", "-f", cluster, "") == ["pod", "pending", "node"]
    assert names("explain", "-f", cluster, "pod", "") == ["shop/cache-0", "web-0"]
    assert names("explain", "-f", cluster, "pod", "sh") == ["shop/cache-0"]
    assert names("explain", "-f", cluster, "node", "b") == ["big-1"]
    assert names("explain", "-f", cluster, "--pod", "w") == ["web-0"]
    assert names("drain", "-f", cluster, "") == ["big-1", "small-1"]
    assert names("drain", "-f", cluster, "--zone", "") == ["eu-a"]
    assert names("what-if", "-f", cluster, "--remove", "s") == ["small-1"]
    assert names("fit", "-f", cluster, "web") == ["web-0"]
    assert offered("fit", "-f", cluster, "new.y") == [("file", "new.y")]


def test_fields():
    assert "leaderElection" in names("config", "explain", "leader")
    assert names("config", "explain", "leaderElection.lease") == ["leaderElection.leaseDuration"]


def test_contexts(tmp_path):
    path = write_kubeconfig(tmp_path / "kubeconfig", a_kubeconfig(cluster={"server": "http://127.0.0.1:1"}))
    assert names("drain", "--kubeconfig", str(path), "--context", "") != []


@pytest.mark.slow
def test_unavailable_values_are_not_offered(tmp_path, monkeypatch, capsys):
    path = write_kubeconfig(tmp_path / "kubeconfig", a_kubeconfig(cluster={"server": "http://127.0.0.1:1"}))
    assert names("drain", "--kubeconfig", str(path), "") == []
    assert names("drain", "--kubeconfig", "/does/not/exist", "") == []
    assert names("drain", "--kubeconfig", "/does/not/exist", "--context", "") == []
    (tmp_path / "bad.yaml").write_text("{")
    assert names("drain", "-f", str(tmp_path / "bad.yaml"), "") == []
    assert names("drain", "-f", "-", "") == []
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts(run, shell):
    ran = run("completion", shell)
    assert (ran.code, ran.err) == (0, "")
    assert f"_STOWPLAN_COMPLETE={shell}_complete" in ran.out


def test_an_unknown_shell(run):
    assert run("completion", "csh").code == 2


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@pytest.mark.slow
def test_bash_completes(run, cluster, tmp_path):
    (tmp_path / "stowplan").write_text(f'#!/bin/sh\nexec {sys.executable} -m stowplan "$@"\n')
    (tmp_path / "stowplan").chmod(0o755)
    script = run("completion", "bash").out + (
        f"COMP_WORDS=(stowplan drain -f {cluster} b); COMP_CWORD=4\n"
        "_stowplan_completion stowplan\n"
        'printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    environment = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    ran = subprocess.run(
        ["bash"], input=script, capture_output=True, text=True, env=environment, timeout=60, check=False
    )
    assert (ran.stdout, ran.stderr) == ("big-1\n", "")
