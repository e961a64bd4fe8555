"""`stowplan dump`: what kubectl would write, without what cannot be listed."""

import asyncio
import json
import re
import shlex

import pytest
import yaml

from stowplan.app.cli.main import cli
from stowplan.testing import a_node
from stowplan_cluster.apiserver.api_server import ApiServer
from stowplan_cluster.front.http_front import Front
from support.http.kubeconfigs import a_kubeconfig, write_kubeconfig
from support.http.misbehaving_server import Misbehaving, answers, status
from support.processes.servers import Server

NOT_SERVED = answers(404, status(404, "NotFound", "the server could not find the requested resource"))
FORBIDDEN = answers(403, status(403, "Forbidden", "no"))


def manifests():
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    yield a_node("a").allocatable(cpu="4", memory="16Gi", pods="10").obj()
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
    for namespace in ("shop", "default"):
        metadata = {"name": "web", "namespace": namespace}
        yield {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}
        yield {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"password": "hush"}}
        claim = {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}}
        api = "resource.k8s.io/v1"
        yield {"apiVersion": api, "kind": "ResourceClaimTemplate", "metadata": metadata, "spec": claim}
    value = {"metadata": {"name": "high"}, "value": 1000}
    yield {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", **value}


@pytest.fixture
async def server(tmp_path):
    api = ApiServer()
    front = Front(api)
    await front.start()
    try:
        api.create_all(manifests())
        front.write_kubeconfig(tmp_path / "kubeconfig")
        yield Server("embedded", tmp_path / "kubeconfig", tmp_path)
    finally:
        await front.stop()
        api.close()


def by_key(document):
    return {(obj["kind"], obj["metadata"].get("namespace"), obj["metadata"]["name"]): obj for obj in document["items"]}


@pytest.mark.slow
async def test_the_same_objects_as_the_command_of_kubectl_in_the_help(run, server):
    """Whole ones."""
    text = re.sub(r"\\\n\s+", "", cli.get_command(None, "dump").help)
    (command,) = re.findall(r"kubectl (get .*)", text)
    kubectl = json.loads((await asyncio.to_thread(server.kubectl, *shlex.split(command))).stdout)
    ran = await asyncio.to_thread(run, "dump", "--kubeconfig", str(server.kubeconfig))
    assert (ran.code, ran.err) == (0, "")
    assert by_key(json.loads(ran.out)) == by_key(kubectl)
    kinds = {"Node", "Namespace", "Deployment", "ResourceClaimTemplate", "PriorityClass"}
    assert {kind for kind, _, _ in by_key(kubectl)} == kinds


async def test_into_a_file_that_others_read(run, server, tmp_path):
    path = tmp_path / "cluster.yaml"
    asked = ("dump", "--kubeconfig", str(server.kubeconfig), "-n", "shop", "-o")
    ran = await asyncio.to_thread(run, *asked, str(path))
    assert ran.code == 0
    assert re.fullmatch(rf"wrote {path}: 1 node, 0 pods, \d+ objects of \d kinds\n", ran.out)
    written = yaml.safe_load(path.read_text())
    assert written["kubernetesVersion"] == "1.37"
    found = by_key(written)
    assert ("Deployment", "shop", "web") in found
    assert ("Deployment", "default", "web") not in found
    assert "hush" not in path.read_text()
    assert run("fit", "-f", str(path), "deployment/shop/web", "-o", "json").code == 0
    ran = await asyncio.to_thread(run, *asked, "/nope/x.json")
    assert (ran.code, ran.err) == (2, "error: open /nope/x.json: no such file or directory\n")


@pytest.fixture
def against(run, tmp_path):
    async def asked(server, *args):
        path = write_kubeconfig(tmp_path / "config", a_kubeconfig(cluster={"server": server.url}))
        return await asyncio.to_thread(run, "dump", "--kubeconfig", path, *args)

    return asked


async def test_what_may_not_be_listed_is_one_line_and_what_is_not_served_none(against):
    nodes = answers(200, {"kind": "NodeList", "metadata": {"resourceVersion": "1"}, "items": [a_node("a").obj()]})
    server = Misbehaving(*[NOT_SERVED] * 40).at("/api/v1/nodes", nodes)
    async with server.at("/api/v1/pods", FORBIDDEN).at("/apis/batch/v1/jobs", FORBIDDEN):
        ran = await against(server)
    assert ran.code == 0
    assert ran.err == "note: left out, as you may not list them: jobs.batch, pods; --rbac prints a role for it\n"
    assert [key[0] for key in by_key(json.loads(ran.out))] == ["Node"]


async def test_a_user_who_may_list_nothing(against):
    async with Misbehaving(*[FORBIDDEN] * 40) as server:
        ran = await against(server)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "error: you may list none of the kinds that stowplan reads; --rbac prints a role for it\n"


async def test_a_refused_connection(against):
    async with Misbehaving() as server:
        pass
    ran = await against(server)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == f"error: cannot reach the cluster: {server.url}: connection refused\n"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("-o", "wide"), "-o wide: want json, yaml, or a file whose name ends with .json or .yaml."),
        (("-n", "a", "-A"), "-n and -A exclude each other."),
        (("--as-group", "a"), "--as-group needs --as USER."),
    ],
)
def test_wrong_usage(run, args, message):
    ran = run("dump", *args)
    assert (ran.code, message in ran.err) == (2, True)


def test_the_role_that_it_needs(run):
    role = yaml.safe_load(run("dump", "--rbac").out)
    listed = {resource for rule in role["rules"] for resource in rule["resources"] if rule["verbs"] == ["list"]}
    assert {"nodes", "pods", "deployments", "jobs", "priorityclasses", "podgroups"} <= listed
    assert "secrets" not in listed
