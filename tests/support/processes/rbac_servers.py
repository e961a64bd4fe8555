"""API servers with RBAC and a scheduler's identities: system:kube-scheduler, and the service account of `deploy/`.

The real server knows the first by a client certificate, as in a static pod's kubeconfig, and the second by a token of
its ServiceAccount; it audits every request. The embedded one knows both by tokens.
"""

import asyncio
import base64
import json
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from stowplan.kube.api.users import UserInfo
from stowplan_cluster.apiserver.api_server import ApiServer
from stowplan_cluster.front.front_settings import FrontSettings
from stowplan_cluster.front.http_front import Front
from support.http.certificates import make_ca, make_client_certificate
from support.processes.deployments import SECOND_SCHEDULER, objects
from support.processes.servers import real_server

USER = "system:kube-scheduler"
ACCOUNT = "system:serviceaccount:kube-system:stowplan"
#: A scheduler's user name, and the lease that it may hold.
IDENTITIES = {USER: "kube-scheduler", ACCOUNT: "stowplan"}
RBAC = "rbac.authorization.k8s.io"
RULES = objects(SECOND_SCHEDULER / "rbac.yaml")
SCRAPER, NOBODY = (f"system:serviceaccount:default:{name}" for name in ("scraper", "nobody"))
_READ = ("get", "list", "watch")


@dataclass
class Guarded:
    kind: str
    #: Kubeconfig by identity.
    kubeconfigs: dict[str, Path]
    #: Tokens of clients of the scheduler's own port.
    tokens: dict[str, str]
    #: With an administrator's rights; None for the embedded server.
    server: object = None
    audit: Path | None = field(default=None)

    def asked(self, user):
        """Each request of a user, from the audit log, if there is one."""
        lines = self.audit.read_text().splitlines()
        return [event for event in map(json.loads, lines) if event["user"]["username"] == user]


def _role(kind, name, *rules, **metadata):
    return {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": {"name": name, **metadata}, "rules": list(rules)}


def _bound(kind, role_kind, role, subject, **metadata):
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": kind,
        "metadata": {"name": f"{role}-test", **metadata},
        "roleRef": {"apiGroup": RBAC, "kind": role_kind, "name": role},
        "subjects": [subject],
    }


def _account(user):
    _, _, namespace, name = user.split(":")
    return {"kind": "ServiceAccount", "name": name, "namespace": namespace}


SCRAPING = [
    _role("ClusterRole", "scrape", {"nonResourceURLs": ["/metrics", "/metrics/slis"], "verbs": ["get"]}),
    _bound("ClusterRoleBinding", "ClusterRole", "scrape", _account(SCRAPER)),
]


# --- the real server

_AUDIT = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}


@contextmanager
def real_guarded(folder, binaries, *flags):
    clients = make_ca("kubernetes")
    (folder / "clients.crt").write_bytes(clients.certificate)
    (folder / "policy.yaml").write_text(yaml.safe_dump(_AUDIT))
    audit = folder / "audit.log"
    flags = (f"--client-ca-file={folder / 'clients.crt'}", f"--audit-policy-file={folder / 'policy.yaml'}", *flags)
    with real_server(folder, binaries, f"--audit-log-path={audit}", *flags) as server:
        accounts = [
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": "default"}}
            for name in ("scraper", "nobody")
        ]
        # Namespaces appear a moment after the server has started.
        for namespace in ("kube-system", "default"):
            server.kubectl("create", "namespace", namespace, check=False)
        server.kubectl("apply", "-f", "-", stdin=[*accounts, *RULES, *SCRAPING])
        tokens = {user: _token(server, user) for user in (SCRAPER, NOBODY)}
        issued = make_client_certificate(clients, USER)
        users = {
            USER: {
                "client-certificate-data": base64.b64encode(issued.certificate).decode(),
                "client-key-data": base64.b64encode(issued.key).decode(),
            },
            ACCOUNT: {"token": _token(server, ACCOUNT)},
        }
        document = yaml.safe_load(server.kubeconfig.read_text())
        yield Guarded("real", _kubeconfigs(folder, document, users), tokens, server, audit)


def _token(server, user):
    account = _account(user)
    return server.kubectl("create", "token", account["name"], "-n", account["namespace"]).stdout.strip()


def _kubeconfigs(folder, document, users):
    found = {}
    for user, entry in users.items():
        document["users"][0]["user"] = entry
        found[user] = folder / f"{IDENTITIES[user]}.kubeconfig"
        found[user].write_text(yaml.safe_dump(document))
    return found


# --- the embedded server


def _volumes():
    """A real cluster's role for volumes, as far as it allows reading."""
    reading = {"apiGroups": [""], "resources": ["persistentvolumes", "persistentvolumeclaims"], "verbs": list(_READ)}
    classes = {"apiGroups": ["storage.k8s.io"], "resources": ["storageclasses"], "verbs": list(_READ)}
    return _role("ClusterRole", "system:volume-scheduler", reading, classes)


def _as_user():
    """The same rights for the user and its lease."""
    text = json.dumps([one for one in RULES if one["kind"] != "ServiceAccount"])
    text = text.replace('["stowplan"]', '["kube-scheduler"]')
    found = json.loads(text)
    for one in found:
        one["metadata"]["name"] += "-user"
        if "subjects" in one:
            one["subjects"] = [{"apiGroup": RBAC, "kind": "User", "name": USER}]
        if one.get("roleRef", {}).get("name", "").startswith("stowplan"):
            one["roleRef"]["name"] += "-user"
    return found


@contextmanager
def embedded_guarded(folder):
    tokens = {user: f"{IDENTITIES.get(user, user.rpartition(':')[2])}-token-0123456789" for user in _USERS}
    ready, ended, made = threading.Event(), None, {}

    async def serve():
        nonlocal ended
        ended = asyncio.Event()
        server = ApiServer()
        server.create_all([*RULES, *_as_user(), _volumes(), *SCRAPING])
        users = {token: UserInfo(user, groups=("system:authenticated",)) for user, token in tokens.items()}
        front = Front(server, settings=FrontSettings(users=users))
        await front.start()
        made.update(document=front.kubeconfig(), loop=asyncio.get_running_loop())
        ready.set()
        await ended.wait()
        await front.stop()
        server.close()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert ready.wait(30)
    try:
        users = {user: {"token": tokens[user]} for user in IDENTITIES}
        yield Guarded("embedded", _kubeconfigs(folder, made["document"], users), tokens)
    finally:
        with suppress(RuntimeError):
            made["loop"].call_soon_threadsafe(ended.set)
        thread.join(30)


_USERS = (*IDENTITIES, SCRAPER, NOBODY)
