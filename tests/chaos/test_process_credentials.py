"""Credentials expire and are replaced while pods arrive: the leader keeps the lease, and no pod is lost."""

import json
import sys

import pytest
import yaml

from support.chaos.replicas import LONG, pods_arriving
from support.http.certificates import make_ca, make_client_certificate, make_server_certificate


def by_token(line, tokens):
    line.admits = lambda headers, _: headers.get("authorization", "").removeprefix("Bearer ") in tokens


class TokenFile:
    def __init__(self, folder):
        self._path = folder / "token"
        self._path.write_text("first")
        self._tokens = {"first"}

    def prepare(self, line):
        by_token(line, self._tokens)
        change_user(line, {"tokenFile": str(self._path)})

    def rotate(self, line, cluster):
        """Like a kubelet: the new token is written before the old one expires."""
        self._path.write_text("second")
        self._tokens.add("second")
        self._tokens.discard("first")


class LateTokenFile(TokenFile):
    def rotate(self, line, cluster):
        """The old token expires, and the new one is written after a request was refused."""
        self._tokens.clear()
        refused = line.refused
        cluster.until(lambda: line.refused > refused)
        self._path.write_text("second")
        self._tokens.add("second")


class ExecPlugin:
    def __init__(self, folder):
        self._file, self._plugin = folder / "token", folder / "plugin.py"
        self._file.write_text("first")
        self._tokens = {"first"}
        self._plugin.write_text(
            "import json, pathlib, sys\n"
            "token = pathlib.Path(sys.argv[1]).read_text()\n"
            "kind = {'kind': 'ExecCredential', 'apiVersion': 'client.authentication.k8s.io/v1'}\n"
            "print(json.dumps(kind | {'status': {'token': token}}))\n"
        )

    def prepare(self, line):
        by_token(line, self._tokens)
        plugin = {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": sys.executable,
            "args": [str(self._plugin), str(self._file)],
            "interactiveMode": "Never",
        }
        change_user(line, {"exec": plugin})

    def rotate(self, line, cluster):
        self._file.write_text("second")
        self._tokens.add("second")
        self._tokens.discard("first")


class ClientCertificate:
    clients = make_ca("clients of the API")

    def __init__(self, folder):
        self._certificate, self._key = folder / "tls.crt", folder / "tls.key"
        self._admitted = set()
        self._write("first")

    def prepare(self, line):
        line.admits = lambda _, certificate: _common_name(certificate) in self._admitted
        change_user(line, {"client-certificate": str(self._certificate), "client-key": str(self._key)})

    def rotate(self, line, cluster):
        self._write("second")
        self._admitted.discard("first")
        # A server that no longer trusts the old certificate closes connections that were made with it.
        line.drop()

    def _write(self, user):
        pair = make_client_certificate(self.clients, user)
        self._certificate.write_bytes(pair.certificate)
        self._key.write_bytes(pair.key)
        self._admitted.add(user)


class ServingCertificate:
    def __init__(self, folder):
        pass

    def prepare(self, line):
        pass

    def rotate(self, line, cluster):
        line.show(make_server_certificate(line.authority, ["127.0.0.1"]))
        line.drop()


class Authority:
    """Both are trusted for a while, then only the new one."""

    def __init__(self, folder):
        self._file = folder / "ca.crt"
        self._new = make_ca("new")

    def prepare(self, line):
        self._old = line.authority
        self._file.write_bytes(self._old.certificate)
        change(line, lambda config: config["clusters"][0]["cluster"].update(self._trusted(config)))

    def _trusted(self, config):
        del config["clusters"][0]["cluster"]["certificate-authority-data"]
        return {"certificate-authority": str(self._file)}

    def rotate(self, line, cluster):
        self._file.write_bytes(self._old.certificate + self._new.certificate)
        line.show(make_server_certificate(self._new, ["127.0.0.1"]))
        line.drop()
        self._file.write_bytes(self._new.certificate)


def _common_name(certificate):
    return dict(pair for (pair,) in (certificate or {}).get("subject", ())).get("commonName")


def change(line, changes):
    config = yaml.safe_load(line.kubeconfig.read_text())
    changes(config)
    line.kubeconfig.write_text(json.dumps(config))


def change_user(line, user):
    change(line, lambda config: config["users"][0].update(user=user))


KINDS = [LateTokenFile, ExecPlugin, ClientCertificate, Authority]
RARELY = [pytest.param(kind, marks=LONG) for kind in (TokenFile, ServingCertificate)]


@pytest.mark.parametrize("kind", [*KINDS, *RARELY])
def test_credentials_are_replaced(replicas, tmp_path, kind):
    credentials = kind(tmp_path)
    # Running a plugin is slow on a busy machine.
    times = ["--leader-elect-lease-duration=15s", "--leader-elect-renew-deadline=10s"]
    process = replicas.start("a", *times, clients=getattr(kind, "clients", None), kubeconfig=credentials.prepare)
    line = replicas.line_of["a"]
    with pods_arriving(replicas.cluster) as made:
        replicas.cluster.until(lambda: len(made) > 20 and replicas.lines.binds())
        credentials.rotate(line, replicas.cluster)
        # Existing watches may continue; new ones have to work as well.
        line.drop()
        before = len(replicas.lines.binds())
        replicas.cluster.until(lambda: len(replicas.lines.binds()) > before + 20)
        assert process.process.poll() is None
    assert len(replicas.check(patience=15.0)) == 1
    assert process.end() == 0
    secrets = ("first", "second")
    assert not [secret for secret in secrets if f"Bearer {secret}" in process.log.read_text()]
