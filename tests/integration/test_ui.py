"""`stowplan ui` beside a live cluster: it follows, judges, and tries changes on a copy; the cluster stays as it is."""

import json
import urllib.request

import pytest

from support.browser.pages import run


class Page:
    def __init__(self, address):
        self.base, _, self.token = address.partition("#token=")

    def open(self, path, body=None):
        headers = {"Authorization": f"Bearer {self.token}"}
        data = None if body is None else json.dumps(body).encode()
        return urllib.request.urlopen(urllib.request.Request(self.base + path, data, headers), timeout=30)

    def ask(self, path, body=None):
        with self.open(path, body) as answer:
            return json.loads(answer.read())


@pytest.fixture
def page(api_server):
    with run("ui", "--kubeconfig", str(api_server.kubeconfig)) as said:
        yield Page(said.split()[-1])


def a_node(name):
    size = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"allocatable": size, "capacity": size, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def a_pod(namespace, name, cpu):
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    # Nobody schedules it, here or there.
    gates = [{"name": "example.com/wait"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"containers": [container], "schedulingGates": gates},
    }


def test_it_follows_judges_and_tries(page, api_server):
    namespace = api_server.new_namespace("ui")
    node, key = f"node-of-{namespace}", f"{namespace}/waits"
    assert page.ask("source")["mode"] == "live"
    with page.open("plan") as stream:
        documents = (json.loads(line.removeprefix(b"data: ")) for line in stream if line.startswith(b"data: "))
        assert next(documents)["kind"] == "snapshot"
        api_server.kubectl("create", "-f", "-", stdin=json.dumps(a_node(node)))
        api_server.kubectl("create", "-f", "-", stdin=json.dumps(a_pod(namespace, "waits", "64")))
        assert any(key in document["pods"]["key"] for document in documents)
    try:
        assert page.ask(f"explain/{key}")["error"] == "gated"
        found = page.ask("what-if", {"change": {"addNodes": [{"count": 2, "like": node}]}})
        assert found["after"]["nodes"] == found["before"]["nodes"] + 2
        names = api_server.json("get", "nodes")["items"]
        assert f"{node}-like-1" not in [one["metadata"]["name"] for one in names]
    finally:
        api_server.kubectl("delete", "node", node)
