"""No secret leaks: each secret that the program comes across is searched for in all of its output.

Planted are its credentials for the API server (a token of an exec plugin, one in a file, a client's key, a proxy's
password), values in its environment, in pods, and in requests to its port. Searched are its log at the highest
verbosity, as text and as JSON, every page of its port, the dump at SIGUSR2, and what it passes to the programs that it
starts.
"""

import base64
import gc
import gzip
import json
import os
import re
import signal
import stat
import sys
import types
from contextlib import contextmanager

import pytest
import yaml

from stowplan.net.client.connection import connect_from_scheduler_flags
from support.api import manifests
from support.http.certificates import make_ca, make_client_certificate
from support.http.kubeconfigs import a_kubeconfig, write_kubeconfig
from support.http.passing_proxy import passing_proxy
from support.processes.scheduler_process import ADMIN, NOBODY, kube_scheduler, ran
from support.processes.servers import free_port, until

PROXY_PASSWORD = "canary-proxy-password"
PROFILES = ("goroutine", "threadcreate", "heap", "allocs", "block", "mutex")
PAGES = [
    "/healthz?verbose",
    "/livez?verbose",
    "/readyz?verbose",
    "/metrics",
    "/metrics/slis",
    "/metrics/resources",
    "/configz",
    "/flagz",
    "/statusz",
    "/debug/flags",
    "/debug/flags/v",
    "/debug/pprof/",
    *(f"/debug/pprof/goroutine?debug={debug}" for debug in "12"),
    "/debug/pprof/heap",
    "/debug/pprof/profile?seconds=1",
    "/debug/pprof/trace?seconds=1",
    "/debug/pprof/symbol",
    "/debug/pprof/cmdline",
    "/stowplan/decisions",
    "/stowplan/pending",
    "/stowplan/",
    "/stowplan/source",
    "/stowplan/configuration",
    "/nowhere",
]
#: Header fields of requests, each with a secret of its own.
SENT = {
    "bearer": {"Authorization": "Bearer canary-bearer-token"},
    "basic": {"Authorization": "Basic " + base64.b64encode(b"someone:canary-basic-password").decode()},
    "cookie": {"Cookie": "session=canary-cookie"},
    "proxy": {"Proxy_Authorization": "Basic canary-proxy-authorization"},
    "websocket": {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec_WebSocket_Protocol": "x, base64url.bearer.authorization.k8s.io."
        + base64.urlsafe_b64encode(b"canary-websocket-token").decode().rstrip("="),
    },
}
#: The exec plugin: it records its arguments and environment, and prints its answer.
PLUGIN = """#!{python}
import json, os, sys
with open({seen!r}, "a") as file:
    print(json.dumps([sys.argv, dict(os.environ)]), file=file)
print(json.dumps({{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {answer}}}))
"""


class Secrets:
    """A folder of files with secrets, and the list of these."""

    def __init__(self, server, folder):
        self.folder = folder
        self._document = yaml.safe_load(server.kubeconfig.read_text())
        self.token = self._document["users"][0]["user"]["token"]
        self.canaries = [self.token]
        self._seen = folder / "seen"

    def plant(self, text):
        self.canaries.append(text)
        return text

    def kubeconfig(self, name, user, **cluster):
        document = json.loads(json.dumps(self._document))
        document["users"][0]["user"] = user
        document["clusters"][0]["cluster"] |= cluster
        unused = make_client_certificate(make_ca(), "unused")
        lines = unused.key.decode().splitlines()[1:-1]
        self.canaries += lines[1:]
        other = {
            "username": "someone",
            "password": self.plant(f"canary-password-{name}"),
            "client-certificate-data": base64.b64encode(unused.certificate).decode(),
            "client-key-data": self.plant(base64.b64encode(unused.key).decode()),
        }
        document["users"].append({"name": "unused", "user": other})
        return write_kubeconfig(self.folder / name, document)

    def plugin(self, answer=None):
        program = self.folder / "plugin"
        status = {"token": self.token} if answer is None else answer
        program.write_text(PLUGIN.format(python=sys.executable, seen=str(self._seen), answer=json.dumps(status)))
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        return {
            "exec": {
                "apiVersion": "client.authentication.k8s.io/v1",
                "command": str(program),
                "args": [self.plant("canary-plugin-argument")],
                "env": [{"name": "PLUGIN_SECRET", "value": self.plant("canary-plugin-environment")}],
                "interactiveMode": "Never",
            }
        }

    def token_file(self):
        file = self.folder / "token"
        file.write_text(self.token)
        return {"tokenFile": str(file)}

    def runs_of_the_plugin(self):
        return [json.loads(line) for line in self._seen.read_text().splitlines()]

    def found_in(self, text):
        """Canaries in a text, also encoded as base64 or printed as a list of bytes."""
        forms = {one: [one, base64.b64encode(one.encode()).decode().rstrip("=")] for one in self.canaries}
        return [one for one, written in forms.items() if any(form in text for form in written)]


@pytest.fixture(params=["text", "json"])
def log_format(request):
    return request.param


@pytest.fixture
def secrets(api_server, tmp_path):
    return Secrets(api_server, tmp_path)


@contextmanager
def started(secrets, api_server, log_format):
    environ = {
        **os.environ,
        "HTTPS_PROXY": f"http://someone:{secrets.plant('canary-environment-proxy')}@127.0.0.1:9",
        "SOME_SECRET": secrets.plant("canary-environment"),
    }
    with passing_proxy("someone", secrets.plant(PROXY_PASSWORD)) as proxy:
        url = f"http://someone:{PROXY_PASSWORD}@127.0.0.1:{proxy.port}"
        with kube_scheduler(
            secrets.folder,
            secrets.kubeconfig("main", secrets.plugin(), **{"proxy-url": url}),
            f"--authentication-kubeconfig={secrets.kubeconfig('authentication', secrets.token_file())}",
            f"--authorization-kubeconfig={secrets.kubeconfig('authorization', {'token': secrets.token})}",
            f"--leader-elect-resource-name=canary-{api_server.kind}-{log_format}",
            f"--logging-format={log_format}",
            "-v=10",
            env=environ,
        ) as scheduler:
            scheduler.until("Successfully acquired lease")
            scheduler.until("Handlers synced")
            yield scheduler
        assert proxy.passed > 0


def a_pod(name, secrets, **spec):
    found = manifests.pod(name, **spec)
    found["metadata"]["annotations"] = {"example.com/secret": secrets.plant(f"canary-annotation-{name}")}
    found["spec"]["containers"][0]["env"] = [{"name": "PASSWORD", "value": secrets.plant(f"canary-value-{name}")}]
    found["spec"]["containers"][0]["args"] = [secrets.plant(f"canary-argument-{name}")]
    return found


@pytest.fixture
def node(api_server):
    """A node that is ready for pods."""
    made = manifests.node("canary-node")
    api_server.kubectl("create", "-f", "-", stdin=[made])
    status = json.dumps({"status": made["status"]})
    api_server.kubectl("patch", "node", "canary-node", "--subresource=status", "--type=merge", "-p", status)
    # No controller sets it ready.
    api_server.kubectl("patch", "node", "canary-node", "--type=merge", "-p", '{"spec": {"taints": null}}')
    yield "canary-node"
    api_server.kubectl("delete", "node", "canary-node")


def test_no_secret_leaks(secrets, api_server, log_format, node, namespace):
    with started(secrets, api_server, log_format) as scheduler:
        pods = [a_pod("fits", secrets), a_pod("waits", secrets, nodeSelector={"nowhere": "true"})]
        api_server.kubectl("-n", namespace, "create", "-f", "-", stdin=pods)
        until(
            lambda: api_server.json("-n", namespace, "get", "pod", "fits")["spec"].get("nodeName") == node,
            scheduler.process,
            scheduler.log,
        )
        told = {name: ask_with_secrets(scheduler, secrets, name) for name in SENT}
        assert scheduler.ask("/configz", Authorization=f"Bearer {secrets.token}")[0] == 200
        pages = [
            *PAGES,
            *(f"/stowplan/{page}/{namespace}/{pod}" for page in ("stories", "explain") for pod in ("fits", "waits")),
        ]
        for path in pages:
            for who in (ADMIN, NOBODY, None):
                told[f"{path} {None if who is None else id(who)}"] = shown(scheduler.ask_bytes(path, who=who))
        scheduler.process.send_signal(signal.SIGUSR2)
        scheduler.until("Dump of scheduling queue")
        assert scheduler.end() == 0
        told["log"] = scheduler.log.read_text()
    assert secrets.found_in(f"... {secrets.token} ...") == [secrets.token]
    assert {name: found for name, text in told.items() if (found := secrets.found_in(text))} == {}
    check_what_the_plugin_was_given(secrets)
    api_server.kubectl("-n", namespace, "delete", "pod", "--all", "--force", "--grace-period=0")


def shown(answer):
    """The complete response as text; profiles are decompressed."""
    _, headers, body = answer
    if body.startswith(b"\x1f\x8b"):
        body = gzip.decompress(body)
    return f"{headers}\n{body.decode(errors='replace')}"


def ask_with_secrets(scheduler, secrets, name):
    headers = SENT[name]
    secrets.canaries += [text for value in headers.values() for text in re.findall(r"canary-[\w-]+", value)]
    secrets.canaries += {"basic": ["canary-basic-password"], "websocket": ["canary-websocket-token"]}.get(name, [])
    told = [
        shown(scheduler.ask_bytes(path, who=who, **headers))
        for path in ("/healthz", "/metrics")
        for who in (None, ADMIN)
    ]
    # Bodies are secret, too, whether they are understood or not.
    how = {"method": "PUT", "body": secrets.plant("canary-body"), **headers}
    told.append(shown(scheduler.ask_bytes("/debug/flags/v", who=NOBODY, **how)))
    return "\n".join(told)


def check_what_the_plugin_was_given(secrets):
    """The plugin gets its own secrets and the inherited environment, and no others."""
    runs = secrets.runs_of_the_plugin()
    assert runs
    own = {"canary-plugin-argument", "canary-plugin-environment", "canary-environment-proxy", "canary-environment"}
    for arguments, environ in runs:
        assert arguments[1:] == ["canary-plugin-argument"]
        assert set(secrets.found_in(json.dumps(environ))) <= own


# --- failing starts


def a_plugin(text, code=0):
    return {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "/bin/sh",
            "args": ["-c", f"printf %s '{text}'; exit {code}"],
            "interactiveMode": "Never",
        }
    }


def an_answer(**status):
    return json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status})


KEY = make_client_certificate(make_ca(), "someone")
#: By name: a user entry with something wrong, and the cluster's fields.
WRONG = {
    "a token that nobody has": ({"token": "canary-a"}, {}),
    "a token that cannot be sent": ({"token": "canary-a\ncanary-b"}, {}),
    "a token that is no text": ({"token": ["canary-a"]}, {}),
    "a user that is no object": ("canary-a", {}),
    "two kinds of credentials": ({"token": "canary-a", "username": "u", "password": "canary-b"}, {}),
    "a password that nobody has": ({"username": "u", "password": "canary-a"}, {}),
    "a key that is no base64": (
        {"client-certificate-data": base64.b64encode(KEY.certificate).decode(), "client-key-data": "canary-a!"},
        {},
    ),
    "a key that is no key": (
        {
            "client-certificate-data": base64.b64encode(KEY.certificate).decode(),
            "client-key-data": base64.b64encode(b"canary-a").decode(),
        },
        {},
    ),
    "a plugin's answer that is no JSON": (a_plugin("token: canary-a"), {}),
    "a plugin's answer that is cut off": (a_plugin(an_answer(token="canary-a")[:-3]), {}),
    "a plugin's answer of another kind": (a_plugin(an_answer(token="canary-a").replace("v1", "v9")), {}),
    "a plugin's token that is no text": (a_plugin(an_answer(token=["canary-a"])), {}),
    "a plugin's token that cannot be sent": (a_plugin(an_answer(token="canary-a\r\ncanary-b")), {}),
    "a plugin's key that is no key": (
        a_plugin(an_answer(clientCertificateData=KEY.certificate.decode(), clientKeyData="canary-a")),
        {},
    ),
    "a plugin that fails after its answer": (a_plugin(an_answer(token="canary-a"), 3), {}),
    "a plugin's environment that is no text": (
        {"exec": {**a_plugin("")["exec"], "env": [{"name": "A", "value": {"canary-a": "canary-b"}}]}},
        {},
    ),
    "a proxy that cannot be reached": ({}, {"proxy-url": "http://someone:canary-a@127.0.0.1:1"}),
    "a proxy of another kind": ({}, {"proxy-url": "ftp://someone:canary-a@127.0.0.1:1"}),
    "a proxy with a port that is none": ({}, {"proxy-url": "http://someone:canary-a#@127.0.0.1:1"}),
    "a server with a password": ({}, {"server": "https://someone:canary-a@127.0.0.1:1"}),
    "a server with a password with a slash": ({}, {"server": "https://someone:canary-a/@127.0.0.1:1"}),
    "a server with a password with a bracket": ({}, {"server": "https://someone:canary-a]@127.0.0.1:1"}),
    "a server with a password and another scheme": ({}, {"server": "ftp://someone:canary-a@127.0.0.1:1"}),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_errors_quote_no_secret(embedded, tmp_path, wrong):
    """Errors do not quote the credentials that failed."""
    document = yaml.safe_load(embedded.kubeconfig.read_text())
    user, cluster = WRONG[wrong]
    document["users"][0]["user"] = user
    document["clusters"][0]["cluster"] |= cluster
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", document)
    finished = ran(
        f"--kubeconfig={embedded.kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        "--authentication-tolerate-lookup-failure=false",
        "--bind-address=127.0.0.1",
        f"--secure-port={free_port()}",
        "-v=10",
    )
    said = finished.stdout + finished.stderr
    assert finished.returncode == 1
    assert '"command failed" err=' in said
    assert "Traceback" not in said
    assert re.findall("canary.{10}", said) == []


def test_a_file_that_cannot_be_read_is_not_quoted(embedded, tmp_path):
    file = tmp_path / "kubeconfig"
    file.write_text("apiVersion: v1\nkind: Config\nusers:\n- name: a\n  user: {token: canary-a, password: [canary-b}\n")
    finished = ran(f"--kubeconfig={file}", "--secure-port=0", "-v=10")
    assert finished.returncode == 1
    assert f"{file}" in finished.stderr
    assert "canary" not in finished.stderr


# --- in memory


def test_no_repr_shows_a_secret(tmp_path):
    """Tracebacks, logs and debuggers print reprs."""
    certificate = base64.b64encode(KEY.certificate).decode()
    users = {
        "token": {"token": "canary-token"},
        "file": {"tokenFile": str(tmp_path / "a-token")},
        "password": {"username": "someone", "password": "canary-password"},
        "key": {"client-certificate-data": certificate, "client-key-data": base64.b64encode(KEY.key).decode()},
        "plugin": a_plugin(an_answer(token="canary-plugin")),
    }
    (tmp_path / "a-token").write_text("canary-file")
    secrets = ["canary-", base64.b64encode(b"canary-").decode()[:9], KEY.key.decode().splitlines()[2]]
    for name, user in users.items():
        cluster = {"server": "https://api.example", "proxy-url": "http://someone:canary-proxy@127.0.0.1"}
        path = write_kubeconfig(tmp_path / name, a_kubeconfig(user=user, cluster=cluster))
        connection = connect_from_scheduler_flags(kubeconfig=path)
        for one in reachable_from(connection):
            assert not [secret for secret in secrets if secret in repr(one)], type(one)


def reachable_from(root):
    """All objects of our own classes that are reachable from `root`."""
    found, ahead, seen = [], [root], set()
    while ahead:
        one = ahead.pop()
        if id(one) in seen or isinstance(one, type | types.ModuleType | types.FunctionType):
            continue
        seen.add(id(one))
        if type(one).__module__.startswith("stowplan"):
            found.append(one)
        ahead += gc.get_referents(one)
    assert len(found) > 3
    return found
