"""API servers as processes, and kubectl as their client."""

import base64
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest
import yaml
from cryptography.hazmat.primitives import serialization

from support.api import manifests
from support.http.certificates import make_ca, make_server_certificate
from support.processes.api_client import Client
from support.processes.forked import ForkedProcess

READY_SECONDS = 60
_NAMES = count(1)


@dataclass
class Server:
    kind: str
    kubeconfig: Path
    folder: Path
    process: subprocess.Popen | None = None
    _env: dict = field(default_factory=dict)

    def __post_init__(self):
        # kubectl caches discovery in its home; each server has its own.
        self._env = {**os.environ, "HOME": str(self.folder), "KUBECONFIG": str(self.kubeconfig), "NO_COLOR": "1"}

    def kubectl(self, *args, stdin=None, check=True, timeout=60, **env):
        _need_kubectl()
        result = subprocess.run(
            ["kubectl", *args],
            input=stdin if stdin is None or isinstance(stdin, str) else "\n".join(map(json.dumps, stdin)),
            capture_output=True,
            text=True,
            timeout=timeout,
            env={**self._env, **env},
        )
        if check and result.returncode:
            raise AssertionError(f"kubectl {' '.join(args)}: exit {result.returncode}\n{result.stdout}{result.stderr}")
        return result

    def json(self, *args):
        return json.loads(self.kubectl(*args, "-o", "json").stdout)

    def started_kubectl(self, *args):
        """kubectl as a running process; the caller stops it."""
        _need_kubectl()
        return subprocess.Popen(
            ["kubectl", *args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=self._env
        )

    def new_namespace(self, hint="test"):
        name = f"{re.sub('[^a-z0-9]+', '-', hint.lower()).strip('-')[:40].strip('-')}-{next(_NAMES)}"
        # Not with kubectl, which would be another process per test.
        Client(self.kubeconfig)("/api/v1/namespaces", manifests.namespace(name))
        return name


def _need_kubectl():
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")


def assets():
    """The folder with etcd and kube-apiserver, if there is one."""
    named = os.environ.get("KUBEBUILDER_ASSETS")
    return Path(named) if named else None


#: Shown as skipped without a real server; REQUIRE=assets makes that a failure.
NO_ASSETS = "KUBEBUILDER_ASSETS names no folder with etcd and kube-apiserver"
_SKIPPED = () if assets() is not None else pytest.mark.skip(reason=NO_ASSETS)
SERVER_KINDS = ["embedded", pytest.param("real", marks=_SKIPPED)]


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@contextmanager
def running(command, log, **options):
    """A process, stopped at the end of the block."""
    with log.open("wb") as output, ForkedProcess(command, stdout=output, stderr=output, **options) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def until(ready, process, log):
    deadline = time.monotonic() + READY_SECONDS
    while not ready():
        if process.poll() is not None or time.monotonic() > deadline:
            raise AssertionError(f"{process.args[0]} did not become ready:\n{log.read_text(errors='replace')[-4000:]}")
        time.sleep(0.05)


@contextmanager
def embedded_server(folder, *args):
    kubeconfig, log = folder / "kubeconfig", folder / "log"
    command = [sys.executable, "-m", "stowplan", "apiserver", f"--kubeconfig-out={kubeconfig}", *args]
    with running(command, log) as process:
        # Written once the server answers.
        until(kubeconfig.exists, process, log)
        yield Server("embedded", kubeconfig, folder, process)


@contextmanager
def real_server(folder, binaries, *flags):
    etcd, api = f"http://127.0.0.1:{free_port()}", free_port()
    key, tokens, kubeconfig = folder / "sa.key", folder / "tokens.csv", folder / "kubeconfig"
    ca = make_ca()
    serving = make_server_certificate(ca, ["127.0.0.1"])
    (folder / "tls.crt").write_bytes(serving.certificate)
    (folder / "tls.key").write_bytes(serving.key)
    key.write_bytes(_as_service_account_key(serving.key))
    tokens.write_text("admin-token,admin,admin,system:masters\n")
    kubeconfig.write_text(yaml.safe_dump(_kubeconfig(api, ca.certificate)))
    with ExitStack() as stack:
        log = folder / "etcd.log"
        command = [binaries / "etcd", f"--data-dir={folder / 'etcd'}", f"--listen-client-urls={etcd}"]
        command += [f"--advertise-client-urls={etcd}", "--listen-peer-urls=http://127.0.0.1:0", "--unsafe-no-fsync"]
        stack.enter_context(running(command, log))
        log = folder / "kube-apiserver.log"
        command = [
            binaries / "kube-apiserver",
            f"--etcd-servers={etcd}",
            f"--secure-port={api}",
            "--bind-address=127.0.0.1",
            f"--tls-cert-file={folder / 'tls.crt'}",
            f"--tls-private-key-file={folder / 'tls.key'}",
            f"--token-auth-file={tokens}",
            "--authorization-mode=RBAC",
            "--disable-admission-plugins=ServiceAccount",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            "--runtime-config=api/all=true",
            *flags,
        ]
        process = stack.enter_context(running(command, log))
        server = Server("real", kubeconfig, folder, process)
        until(lambda: server.kubectl("get", "--raw=/readyz", check=False).stdout == "ok", process, log)
        yield server


def _kubeconfig(port, ca):
    data = base64.b64encode(ca).decode()
    cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority-data": data}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "real",
        "contexts": [{"name": "real", "context": {"cluster": "real", "user": "admin"}}],
        "clusters": [{"name": "real", "cluster": cluster}],
        "users": [{"name": "admin", "user": {"token": "admin-token"}}],
    }


def _as_service_account_key(pem):
    """kube-apiserver finds the public half only in the older format."""
    key = serialization.load_pem_private_key(pem, None)
    form = serialization.PrivateFormat.TraditionalOpenSSL
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
