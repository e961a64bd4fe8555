"""`kubectl stowplan` by kubectl itself, which finds the plugin on the PATH."""

import json
import os
import sys
from pathlib import Path

import pytest

from support.api import manifests

PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


@pytest.fixture(scope="module")
def namespace(cluster):
    """With a pod that fits nowhere."""
    name = cluster.new_namespace("plugin")
    pod = manifests.pod("stuck")
    pod["spec"]["nodeSelector"] = {"disk": "none-has-it"}
    cluster.kubectl("create", "-n", name, "-f", "-", stdin=[pod])
    return name


def asked(cluster, *words, check=True):
    return cluster.kubectl("stowplan", *words, check=check, PATH=PATH)


def test_a_verdict(cluster, namespace):
    said = asked(cluster, "explain", "pod", "stuck", "-n", namespace).stdout
    assert "didn't match Pod's node affinity/selector" in said
    record = json.loads(asked(cluster, "explain", f"{namespace}/stuck", "-o", "json").stdout)
    assert (record["pod"], "node" in record) == (f"{namespace}/stuck", False)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--token=wrong"], "Unauthorized"),
        (["--as=jane"], 'User "jane" cannot list resource'),
        (["--context=nowhere"], 'context "nowhere" does not exist'),
        (["--server=https://127.0.0.1:1"], "https://127.0.0.1:1"),
        (["--user=nobody"], 'user "nobody" was not found'),
    ],
)
def test_kubectls_flags(cluster, namespace, flags, message):
    """Each is about the cluster, or the user who asks; the exit code is the plugin's."""
    answer = asked(cluster, "explain", "pod", "stuck", "-n", namespace, *flags, check=False)
    assert answer.returncode == 2
    assert message in answer.stderr


def test_completion(cluster):
    said = cluster.kubectl("__complete", "stowplan", "drain", "node-", PATH=PATH).stdout.splitlines()
    assert len(said) == 7
    assert said[-1] == ":4"
