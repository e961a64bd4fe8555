"""`stowplan mcp` as its users meet it: a process on stdio, a port, and a live cluster that changes and goes away."""

import asyncio
import json
import signal
import sys
from contextlib import asynccontextmanager

import httpx2
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from stowplan.app.cli.live_cluster import followed_cluster
from stowplan.app.cli.mcp.command import ServedCluster
from stowplan.app.cli.mcp.questions import QUESTIONS
from stowplan.app.cli.mcp.server import server_of
from stowplan.app.command_line.event_loop import running
from stowplan.kube.api.users import UserInfo
from stowplan.net.client.cluster_flags import ClusterFlags
from stowplan_cluster.apiserver.api_server import ApiServer
from stowplan_cluster.front.front_settings import FrontSettings
from stowplan_cluster.front.http_front import Front
from support.what_if.objects import node, owned, pod

MCP = ("-m", "stowplan", "mcp")
CLUSTER = (node("a"), owned(pod("web-0", nodeName="a")), pod("waiting", "5"))
NAMES = {tool.name for tool in QUESTIONS}


async def test_on_stdio(files):
    command = StdioServerParameters(command=sys.executable, args=[*MCP, "-f", files(*CLUSTER)])
    async with Client(stdio_client(command)) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} >= NAMES
        found = await client.call_tool("pending", {})
        assert found.structured_content["verdicts"][0]["pod"] == "default/waiting"


async def test_on_a_port(files, tmp_path):
    token = tmp_path / "token"
    token.write_text("a-long-random-text\n")
    command = [*MCP, "-f", files(*CLUSTER), "--port", "0", "--bearer-token-file", str(token)]
    process = await asyncio.create_subprocess_exec(sys.executable, *command, stdout=asyncio.subprocess.PIPE)
    try:
        url = (await process.stdout.readline()).decode().strip()
        bearer = {"Authorization": "Bearer a-long-random-text"}
        async with httpx2.AsyncClient(headers=bearer) as http:
            async with Client(streamable_http_client(url, http_client=http)) as client:
                found = await client.call_tool("explain", {"of": "web-0"})
                assert found.structured_content["pod"] == "default/web-0"
            refused = [
                (401, {"Authorization": ""}),
                (401, {"Authorization": "Bearer another"}),
                (403, {"Host": "evil.example"}),
                (403, {"Origin": "http://evil.example"}),
            ]
            for code, headers in refused:
                answer = await http.post(url, headers=headers, json={})
                assert (answer.status_code, "error" in answer.json()) == (code, True), headers
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 20) == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_options_that_contradict_each_other(run, files, tmp_path):
    empty = tmp_path / "empty"
    empty.write_text("")
    for words, says in [
        (("--bearer-token-file", str(empty)), "--bearer-token-file is for --port"),
        (("--port=0", "--bearer-token-file", str(empty)), "it is empty"),
        (("--port=0", "--bearer-token-file", str(tmp_path / "none")), "No such file or directory"),
        (("-f", "-"), "the client talks on stdin"),
        (("--at", "2026-01-01T00:00"), "--at is for a moment of a recording"),
        (("--recording", "x", "-f", files(*CLUSTER)), "--recording has a cluster of its own"),
        (("--kubeconfig", str(tmp_path / "none")), "no such file or directory"),
    ]:
        ran = run("mcp", *words)
        assert (ran.code, says in ran.err) == (2, True), (words, ran.err)


# -- a live cluster ----------------------------------------------------------------------------------------------------

RULES = [{"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["get", "list", "watch"]}]
RBAC = "rbac.authorization.k8s.io"


def reader():
    yield {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": "reader"}, "rules": RULES}
    role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "reader"}
    users = [{"apiGroup": RBAC, "kind": "User", "name": "reader"}]
    about = {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "reader"}}
    yield about | {"roleRef": role, "subjects": users}


def stored(made):
    for container in made["spec"]["containers"]:
        container["image"] = "app"
    return made


class Live:
    """An API server in this process, which can be stopped, and clients of servers that follow it."""

    def __init__(self, folder):
        self.api, self.folder, self.port = ApiServer(), folder, 0
        self.api.create_all([node("a"), *reader()])

    async def start(self):
        users = {user: UserInfo(user, groups=("system:authenticated",)) for user in ("reader", "nobody")}
        settings = FrontSettings(port=self.port, users=users, certificates=self.folder, token="admin")
        self.front = Front(self.api, settings=settings)
        await self.front.start()
        self.port = int(self.front.url.rpartition(":")[2])
        self.front.write_kubeconfig(self.folder / "kubeconfig")

    @asynccontextmanager
    async def client(self, token=""):
        live = ClusterFlags(kubeconfig=str(self.folder / "kubeconfig"), token=token)
        cluster = followed_cluster(live, None, (), None, groups=False, command="mcp")
        host = ServedCluster(cluster, [])
        async with running(cluster.run()), Client(server_of(QUESTIONS, host, title="live")) as client:
            yield client


async def text_of(client, tool="pending", **arguments):
    found = await client.call_tool(tool, arguments)
    return ("error: " if found.is_error else "") + found.content[0].text


async def until(client, says, *, without="nonsense"):
    """Ask again and again: changes arrive a moment later."""
    async with asyncio.timeout(20):
        while says not in (text := await text_of(client)) or without in text:  # noqa: ASYNC110 - only an answer tells
            await asyncio.sleep(0.02)
    return text


async def test_a_live_cluster(tmp_path, monkeypatch):
    monkeypatch.setattr("stowplan.app.sources.followed_cluster._AGAIN", 0.1)
    live = Live(tmp_path)
    await live.start()
    try:
        async with live.client("nobody") as client:
            text = await text_of(client)
            assert text.startswith("error: nodes, pods cannot be listed: nodes is forbidden: ")
            assert 'User "nobody" cannot list resource "nodes"' in text
            assert "stowplan mcp --rbac" in text
        async with live.client("reader") as client:
            text = await text_of(client)
            assert text.startswith("note: not read, judged as if there were none: ")
            assert 'User "reader" cannot list' in text
            assert text.endswith("No pod is pending.")
        async with live.client() as client:
            assert await text_of(client) == "No pod is pending."
            live.api.create_all([stored(pod("big", "100"))])
            await until(client, "default/big is pending")
            assert "like default/big: 0 more fit" in await text_of(client, "fit", of="big")
            await live.front.stop()
            text = await until(client, "note: as of ")
            assert "it is tried again" in text
            assert "default/big is pending" in text
            unknown = await text_of(client, "explain", of="deployment/later")
            assert unknown.startswith("error: no pod of Deployment default/later in the cluster\nnote: as of ")
            live.api.create_all([stored(pod("later", "100"))])
            await live.start()
            await until(client, "default/later", without="note: as of ")
    finally:
        await live.front.stop()
        live.api.close()


async def test_a_server_that_is_not_there(tmp_path):
    kubeconfig = tmp_path / "kubeconfig"
    cluster = {"clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}]}
    context = {"contexts": [{"name": "x", "context": {"cluster": "c"}}], "current-context": "x"}
    kubeconfig.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", **cluster, **context}))
    followed = followed_cluster(ClusterFlags(kubeconfig=str(kubeconfig)), None, (), None, groups=False, command="mcp")
    host = ServedCluster(followed, [])
    async with running(followed.run()), Client(server_of(QUESTIONS, host, title="none")) as client:
        assert "error: cannot reach the cluster: http://127.0.0.1:1: connection refused" in await text_of(client)
