"""`stowplan ui` with a live cluster: it follows it, answers questions, and tries changes without changing the
cluster."""

import json
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from contextlib import ExitStack, contextmanager

import pytest
from playwright.sync_api import expect

from support.browser.browsers import chromium, tab
from support.browser.pages import run
from support.http.http_errors import http_error
from support.processes import forked
from support.processes.scheduler_process import ADMIN, NOBODY, kube_scheduler


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
    # No scheduler handles this pod.
    gates = [{"name": "example.com/wait"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"containers": [container], "schedulingGates": gates},
    }


def test_it_follows_the_cluster_and_tries_changes(page, api_server):
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


@pytest.fixture(scope="module")
def scheduler(api_server, tmp_path_factory):
    folder = tmp_path_factory.mktemp("scheduler")
    lease = f"--leader-elect-resource-name=page-{api_server.kind}"
    with kube_scheduler(folder, api_server.kubeconfig, lease) as started:
        started.until("Handlers synced")
        yield started


def proxied(scheduler, kubeconfig):
    url = f"https://127.0.0.1:{scheduler.port}"
    return run("ui", "--from-scheduler", url, "--kubeconfig", str(kubeconfig), "--insecure-skip-tls-verify")


def test_the_page_of_a_scheduler_is_proxied_with_the_kubeconfigs_credentials(scheduler, api_server):
    namespace = api_server.new_namespace("passed-on")
    with proxied(scheduler, api_server.kubeconfig) as said:
        page = Page(said.split()[-1])
        source = page.ask("source")
        assert (source["mode"], "decisions" in source["can"]) == ("live", True)
        with page.open("") as index:
            assert index.read().startswith(b"<!doctype html>")
        with page.open("plan") as stream:
            documents = (json.loads(line.removeprefix(b"data: ")) for line in stream if line.startswith(b"data: "))
            assert next(documents)["kind"] == "snapshot"
            api_server.kubectl("create", "-f", "-", stdin=json.dumps(a_pod(namespace, "seen", "1")))
            assert any(f"{namespace}/seen" in document["pods"]["key"] for document in documents)
        assert page.ask(f"explain/{namespace}/seen")["pod"] == f"{namespace}/seen"
        assert page.ask("pending?limit=1")["leftOut"] >= 0
        for path, body, code in (("explain/nobody/nothing", None, 404), ("pending", {}, 405), ("what-if", {}, 404)):
            with http_error(code):
                page.ask(path, body)
        page.token = "wrong"
        with http_error(401):
            page.ask("source")


@contextmanager
def local_scheduler(kubeconfig, name):
    """`stowplan run` once it schedules; killed at the end."""
    command = [sys.executable, "-m", "stowplan", "run", "--kubeconfig", str(kubeconfig), "--scheduler-name", name]
    with forked.ForkedProcess(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline().startswith(f"scheduling for {name}")
            yield
        finally:
            process.kill()


def test_the_page_of_a_discovered_scheduler_survives_browsers_and_a_restart(api_server, tmp_path, monkeypatch):
    with tempfile.TemporaryDirectory(prefix="xdg-") as folder, (tmp_path / "errors").open("w") as errors:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        asked = ("ui", "--from-scheduler", "auto", "--kubeconfig", str(api_server.kubeconfig))
        with ExitStack() as stack:
            with local_scheduler(api_server.kubeconfig, "first"):
                said = stack.enter_context(run(*asked, errors=errors))
                assert said.startswith(f"the scheduler at unix:{folder}/stowplan/")
                page = Page(said.split()[-1])
                assert page.ask("source")["schedulerName"] == "first"
                # A browser that leaves while its stream waits for the next change.
                with page.open("plan") as stream:
                    assert stream.readline().startswith(b"id: ")
                stream = page.open("plan")
                assert stream.readline().startswith(b"id: ")
            # The stream ends with its scheduler.
            stream.read()
            with http_error(503):
                page.ask("source")
            with http_error(503) as refusal:
                page.ask("source")
            assert b"no Stowplan scheduler of" in refusal.body
            with local_scheduler(api_server.kubeconfig, "second"):
                assert page.ask("source")["schedulerName"] == "second"
        assert (tmp_path / "errors").read_text() == ""


@pytest.fixture
def browser():
    with chromium() as found:
        yield found


def tab_with_certificate(browser, scheduler, who):
    """A tab that presents a client certificate to the scheduler's secure port and accepts its self-signed one."""
    certificate = {"origin": f"https://127.0.0.1:{scheduler.port}", "cert": who.certificate, "key": who.key}
    return tab(browser, ignore_https_errors=True, client_certificates=[certificate])


def test_a_browser_with_a_client_certificate_can_follow_the_secure_port(scheduler, api_server, browser):
    namespace, address = api_server.new_namespace("secure"), f"https://127.0.0.1:{scheduler.port}/stowplan/"
    with tab_with_certificate(browser, scheduler, ADMIN) as opened:
        opened.page.goto(address)
        expect(opened.page.locator(".state")).to_contain_text("live")
        api_server.kubectl("create", "-f", "-", stdin=json.dumps(a_pod(namespace, "waits", "1")))
        expect(opened.page.locator(".pending-pods")).to_contain_text("gated by SchedulingGates")
        opened.page.goto(f"{address}#/pod/{namespace}/waits")
        expect(opened.page.locator(".story")).to_contain_text("gated")
        opened.page.goto(f"{address}#/queue")
        expect(opened.page.get_by_role("region", name="gated by SchedulingGates")).to_contain_text("waits")
        assert opened.page.context.cookies() == []


def test_a_browser_without_permission_gets_no_page(scheduler, browser):
    with tab_with_certificate(browser, scheduler, NOBODY) as opened:
        response = opened.page.goto(f"https://127.0.0.1:{scheduler.port}/stowplan/")
        assert response.status == 403
        assert 'User "nobody" cannot get path "/stowplan/"' in response.json()["message"]
        # The browser logs an error for the refusal.
        assert all("403" in complaint for complaint in opened.complaints)
        opened.complaints.clear()


def test_a_refusal_by_the_scheduler_is_reported_at_once(scheduler, api_server, tmp_path):
    token = tmp_path / "token"
    token.write_text("nobody's")
    command = [sys.executable, "-m", "stowplan", "ui", "--from-scheduler", f"https://127.0.0.1:{scheduler.port}"]
    ran = forked.run(
        [*command, "--token-file", str(token), "--insecure-skip-tls-verify"], capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == 2
    assert "the scheduler does not accept these credentials" in ran.stderr
