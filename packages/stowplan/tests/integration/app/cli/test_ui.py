"""`stowplan ui`: the page of a cluster, served or saved; its options and errors."""

import asyncio
import gc
import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from stowplan.kube.api.users import UserInfo
from stowplan_cluster.apiserver.api_server import ApiServer
from stowplan_cluster.front.front_settings import FrontSettings
from stowplan_cluster.front.http_front import Front
from support.http.http_errors import http_error
from support.page.saved import data_of
from support.processes import forked
from support.what_if.objects import node, pod

CLUSTER = (node("a", zone="x"), node("b", zone="y"), pod("web-0", nodeName="a"), pod("big", cpu="64"))


def test_a_saved_copy(run, files, tmp_path):
    ran = run("ui", "-f", files(*CLUSTER), "--export", str(tmp_path / "copy.html"))
    assert (ran.code, ran.out) == (0, f"wrote {tmp_path}/copy.html: 2 nodes, 2 pods, 1 of them pending\n")
    data = data_of((tmp_path / "copy.html").read_text())
    assert data["source"]["mode"] == "static"
    assert data["plan"]["nodes"]["name"] == ["a", "b"]
    assert data["pending"]["pods"][0]["rejectedBy"] == ["NodeResourcesFit"]


def test_prices_and_measured_use_in_a_saved_copy(run, files, tmp_path):
    metadata, usage = {"name": "a"}, {"cpu": "250m", "memory": "1Gi"}
    measured = {"apiVersion": "metrics.k8s.io/v1beta1", "kind": "NodeMetrics", "metadata": metadata, "usage": usage}
    (tmp_path / "prices.csv").write_text("type,capacityType,price\nlarge,,2\nlarge,spot,0.5\n")
    options = ("--prices", str(tmp_path / "prices.csv"), "--export", str(tmp_path / "copy.html"))
    assert run("ui", "-f", files(*CLUSTER, measured), *options).code == 0
    data = data_of((tmp_path / "copy.html").read_text())
    assert data["source"]["prices"] == {"large": {"": 2, "spot": 0.5}}
    assert "use" in data["source"]["can"]
    assert data["use"]["nodes"] == {"a": {"cpu": 250, "memory": 2**30}}


def test_the_given_configuration_is_shown(run, files, tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text(
        """
        apiVersion: kubescheduler.config.k8s.io/v1
        kind: KubeSchedulerConfiguration
        profiles:
          - schedulerName: mine
            percentageOfNodesToScore: 30
            plugins:
              score:
                enabled: [{name: ImageLocality, weight: 7}]
                disabled: [{name: NodeAffinity}]
        """
    )
    assert run("ui", "-f", files(*CLUSTER), "--config", str(config), "--export", str(tmp_path / "copy.html")).code == 0
    data = data_of((tmp_path / "copy.html").read_text())
    (profile,) = data["configuration"]["profiles"]
    assert (profile["schedulerName"], profile["percentageOfNodesToScore"]) == ("mine", 30)
    score = next(point["plugins"] for point in profile["points"] if point["point"] == "score")
    assert {"name": "ImageLocality", "weight": 7, "from": "explicit"} in score
    assert profile["leftOut"] == [{"name": "NodeAffinity", "why": "disabled at score"}]
    assert "percentageOfNodesToScore: 30" in data["configuration"]["yaml"]


@pytest.mark.slow
def test_it_serves_until_it_is_stopped(files):
    command = [sys.executable, "-m", "stowplan", "ui", "-f", files(*CLUSTER)]
    env = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with forked.ForkedProcess(command, stdout=subprocess.PIPE, text=True, env=env) as server:
        try:
            said = server.stdout.readline()
            found = re.fullmatch(
                r"2 nodes, 2 pods, 1 of them pending: (http://127\.0\.0\.1:\d+/stowplan/)#token=(\S+)\n", said
            )
            assert found, said
            address, token = found.groups()
            assert b"<!doctype html>" in urllib.request.urlopen(address).read()
            with http_error(401):
                urllib.request.urlopen(f"{address}source")
            asked = urllib.request.Request(f"{address}plan", headers={"Authorization": f"Bearer {token}"})
            with urllib.request.urlopen(asked) as stream:
                assert stream.readline() == b"id: 1\n"
                assert stream.readline() == b"event: snapshot\n"
                server.send_signal(signal.SIGTERM)
                # An open stream does not delay the exit.
                stream.read()
            assert server.wait(10) == 0
        finally:
            server.kill()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("-R",), "-R needs -f"),
        (("--at", "2026-11-20T12:03"), "--at is for a moment of a recording"),
        (("-f", "x", "--recording", "y"), "give one cluster"),
        (("-f", "x", "--context", "y"), "give one cluster"),
        (("-f", "x", "--export", "y", "--open"), "--export writes a file and serves nothing"),
        (("-f", "/nowhere.json"), "/nowhere.json"),
        (("--recording", "/nowhere.recording"), "/nowhere.recording"),
        (("--simulation", "/nowhere"), "--simulation /nowhere: no such folder"),
        (("-f", "x", "--simulation", "y"), "give one cluster"),
        (("--simulation", "x", "--config", "y"), "another configuration for one recording"),
        (("--recording", "x", "--recording", "y", "--at", "2026-11-20T12:03"), "--at is for a moment of a recording"),
        (("--recording", "x", "--recording", "y", "--simulation", "z"), "two are shown side by side, no more"),
        (("--token-file", "x"), "--token-file is for --from-scheduler"),
        (("--prices", "/nowhere.csv", "-f", "x"), "/nowhere.csv: No such file"),
        (("--from-scheduler", "https://x", "-f", "y"), "a scheduler that has its own cluster"),
        (("--from-scheduler", "http://127.0.0.1:1", "--token-file", "/dev/null"), "a scheduler's port is HTTPS"),
        (("--from-scheduler", "unix:"), "unix: needs the path of a scheduler's socket"),
    ],
)
def test_invalid_usage(run, options, said):
    ran = run("ui", *options)
    assert ran.code == 2
    assert said in ran.err


def test_a_port_in_use(run, files):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ran = run("ui", "-f", files(*CLUSTER), f"--port={port}")
        gc.collect()  # a coroutine that was never awaited warns then
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"error: cannot listen on 127.0.0.1:{port}: ")


def test_a_folder_that_cannot_be_written(run, files, tmp_path):
    (tmp_path / "file").write_text("")
    ran = run("ui", "-f", files(*CLUSTER), "--export", str(tmp_path / "file" / "copy"))
    assert ran.code == 2
    assert f"--export {tmp_path}/file/copy: File exists: {tmp_path}/file" in ran.err


SCENARIO = """
name: small
duration: 60
cluster:
  groups:
  - {name: a, count: 1, capacity: {cpu: 4}}
workloads:
- name: w
  manifest: {kind: Pod, spec: {containers: [{name: c, image: i, resources: {requests: {cpu: "3"}}}]}}
  at: [10, 20]
"""


@pytest.fixture
def simulated(run, tmp_path):
    (tmp_path / "small.yaml").write_text(SCENARIO)
    assert run("simulate", str(tmp_path / "small.yaml"), "--out", str(tmp_path / "results"), "--quiet").code == 0
    return str(tmp_path / "results")


def test_a_simulation_as_a_saved_copy(run, simulated, tmp_path):
    ran = run("ui", "--simulation", simulated, "--export", str(tmp_path / "copy.html"))
    assert (ran.code, ran.out) == (0, f"wrote {tmp_path}/copy.html: 1 node, 2 pods, 1 of them pending\n")
    data = data_of((tmp_path / "copy.html").read_text())
    assert (data["source"]["title"], data["source"]["timelines"]) == ("small", ["results"])
    assert {"explain", "pending", "time"} <= set(data["source"]["can"])
    # It was run again for that.
    assert [pod["place"] for pod in data["pending"]["pods"]] == ["unschedulable"]
    assert [*data["explain"]] == [pod["pod"] for pod in data["pending"]["pods"]]
    assert data["configuration"]["profiles"][0]["schedulerName"] == "default-scheduler"
    columns = {column["name"]: column["values"] for column in data["time"]["results"]["series"]["columns"]}
    assert columns["cpu"][-1] == 0.75
    assert (columns["pending"][0], columns["pending"][-1]) == (0, 1)


def test_two_simulations_have_names_that_differ(run, simulated, tmp_path):
    ran = run("ui", "--simulation", simulated, "--simulation", simulated, "--export", str(tmp_path / "copy.html"))
    assert ran.code == 0
    assert data_of((tmp_path / "copy.html").read_text())["source"]["timelines"] == [
        f"{simulated} (1)",
        f"{simulated} (2)",
    ]


@pytest.mark.slow
async def test_a_live_cluster(tmp_path):
    """Changes are tried on the cluster that is followed, and undone; who may not list pods is told so."""
    api = ApiServer()
    api.create_all([node("a"), node("b"), *may_list("nodes", user="half")])
    users = {"half": UserInfo("half", groups=("system:authenticated",))}
    front = Front(api, settings=FrontSettings(port=0, users=users, certificates=tmp_path, token="admin"))
    await front.start()
    try:
        front.write_kubeconfig(tmp_path / "kubeconfig")
        command = [sys.executable, "-m", "stowplan", "ui", "--kubeconfig", str(tmp_path / "kubeconfig")]
        env = {**os.environ, "PYTHONUNBUFFERED": "1"}
        pipe = asyncio.subprocess.PIPE
        refused = await asyncio.create_subprocess_exec(*command, "--token", "half", stdout=pipe, stderr=pipe)
        out, err = await refused.communicate()
        assert (refused.returncode, out) == (2, b"")
        assert b"error: pods cannot be listed: pods is forbidden" in err
        page = await asyncio.create_subprocess_exec(*command, stdout=pipe, env=env)
        address, _, token = (await page.stdout.readline()).decode().split()[-1].partition("#token=")
        change = {"change": {"remove": ["a"]}}
        for _ in range(2):
            asked = urllib.request.Request(f"{address}what-if", json.dumps(change).encode())
            asked.add_header("Authorization", f"Bearer {token}")
            answer = json.loads(await asyncio.to_thread(lambda asked=asked: urllib.request.urlopen(asked).read()))
            assert (answer["before"]["nodes"], answer["after"]["nodes"]) == (2, 1)
        page.send_signal(signal.SIGINT)
        await page.wait()
    finally:
        await front.stop()
        api.close()


def may_list(resource, *, user):
    rbac = "rbac.authorization.k8s.io"
    rules = [{"apiGroups": [""], "resources": [resource], "verbs": ["get", "list", "watch"]}]
    yield {"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": {"name": user}, "rules": rules}
    binding = {"apiVersion": f"{rbac}/v1", "kind": "ClusterRoleBinding", "metadata": {"name": user}}
    subjects = [{"apiGroup": rbac, "kind": "User", "name": user}]
    yield binding | {"roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": user}, "subjects": subjects}
