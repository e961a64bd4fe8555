"""`kubectl stowplan` by kubectl itself, which finds the plugin on the PATH."""

import json
import os
import re
import sys
from pathlib import Path

import click
import pytest

from stowplan.app.cli.kubectl_plugin import cli as plugin
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
        (["--username=jane", "--password=wrong"], "Unauthorized"),
        (["--token=a", "--username=jane"], "more than one authentication method"),
        (["--request-timeout=soon"], "Invalid timeout value. Timeout must be a single integer in seconds"),
        (["--request-timeout=1ms"], "within the time limit"),
    ],
)
def test_kubectls_flags(cluster, namespace, flags, message):
    """Each is about the cluster, or the user who asks; the exit code is the plugin's."""
    answer = asked(cluster, "explain", "pod", "stuck", "-n", namespace, *flags, check=False)
    assert answer.returncode == 2
    assert message in answer.stderr


#: `kubectl options`, except for what is about kubectl's own process.
OF_THE_PROCESS = {"log-flush-frequency", "match-server-version", "profile", "profile-output", "v", "vmodule"}
OF_THE_PROCESS |= {"warnings-as-errors"}


def test_each_global_flag_of_kubectl(cluster, namespace):
    """All that are about the cluster, the user and the requests are options of the plugin's commands."""
    lines = re.findall(r"^ +(?:-\w, )?--([a-z-]+)=", cluster.kubectl("options").stdout, re.MULTILINE)
    context = click.Context(plugin)
    known = {one.removeprefix("--") for option in plugin.get_command(context, "explain").params for one in option.opts}
    assert set(lines) - known == OF_THE_PROCESS
    taken = ["--cache-dir=/nowhere", "--disable-compression", "--request-timeout=1m"]
    assert "stuck" in asked(cluster, "explain", "pod", "stuck", "-n", namespace, *taken).stdout


def test_completion(cluster):
    said = cluster.kubectl("__complete", "stowplan", "drain", "node-", PATH=PATH).stdout.splitlines()
    assert len(said) == 7
    assert said[-1] == ":4"
