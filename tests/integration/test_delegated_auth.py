"""The secure port in front of an API server with RBAC: no client gets a response that upstream would refuse.

The port has only the rights that the spec lists. The API server is the real one if available, and the embedded one
behind its HTTP front.
"""

import asyncio
import json
import ssl
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest
import yaml

from stowplan.kube.api.users import UserInfo
from stowplan.kube.metrics.registry import MetricsRegistry
from stowplan.kube.metrics.serving import ServingMetrics
from stowplan.kube.timing.times import REAL_TIMES
from stowplan.net.client.http_api import HttpApi
from stowplan.net.serving.authentication.lookup import NAME, NAMESPACE
from stowplan.net.serving.delegation import (
    CLIENT_LIMITS,
    CLIENT_SETTINGS,
    AuthenticationOptions,
    AuthorizationOptions,
    delegated,
    delegated_connection,
)
from stowplan.net.serving.requests.messages import text
from stowplan.net.serving.secure_server import SecureServer, ServingSettings
from stowplan_cluster.apiserver.api_server import ApiServer
from stowplan_cluster.front.front_settings import FrontSettings
from stowplan_cluster.front.http_front import Front
from support.http.certificates import make_ca, make_client_certificate
from support.paths import ROOT
from support.processes.servers import SERVER_KINDS

SECONDS = 20
RBAC = "rbac.authorization.k8s.io"
#: The user as whom the port calls the API server, with only the rights listed here.
KEEPER = "port-keeper"
ACCOUNT = "system:serviceaccount:default:{}"

CLIENTS, PROXIES = make_ca("clients"), make_ca("proxies")
CERTIFICATES = {
    "root": make_client_certificate(CLIENTS, "root", ("system:masters",)),
    "proxy": make_client_certificate(PROXIES, "front-proxy"),
}


def role(kind, name, rules, **metadata):
    return {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": {"name": name, **metadata}, "rules": rules}


def binding(kind, name, role_kind, role_name, *subjects, **metadata):
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": kind,
        "metadata": {"name": name, **metadata},
        "roleRef": {"apiGroup": RBAC, "kind": role_kind, "name": role_name},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": subject} for subject in subjects],
    }


def rule(group, resource, *verbs, **more):
    return {"apiGroups": [group], "resources": [resource], "verbs": list(verbs), **more}


RIGHTS = [
    role(
        "ClusterRole",
        KEEPER,
        [
            rule("authentication.k8s.io", "tokenreviews", "create"),
            rule("authorization.k8s.io", "subjectaccessreviews", "create"),
        ],
    ),
    binding("ClusterRoleBinding", KEEPER, "ClusterRole", KEEPER, KEEPER),
    role("ClusterRole", "scrape", [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]),
    binding("ClusterRoleBinding", "scrape", "ClusterRole", "scrape", ACCOUNT.format("scraper"), "carol"),
]
READING = [
    role(
        "Role",
        KEEPER,
        [rule("", "configmaps", "get", "list", "watch", resourceNames=[NAME])],
        namespace=NAMESPACE,
    ),
    binding("RoleBinding", KEEPER, "Role", KEEPER, KEEPER, namespace=NAMESPACE),
]


def config_map(clients=CLIENTS):
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": NAME, "namespace": NAMESPACE},
        "data": {
            "client-ca-file": clients.certificate.decode(),
            "requestheader-client-ca-file": PROXIES.certificate.decode(),
            "requestheader-allowed-names": json.dumps(["front-proxy"]),
            "requestheader-username-headers": json.dumps(["X-Remote-User"]),
            "requestheader-group-headers": json.dumps(["X-Remote-Group"]),
            "requestheader-extra-headers-prefix": json.dumps(["X-Remote-Extra-"]),
        },
    }


@dataclass
class Cluster:
    kubeconfig: str
    #: Creates or updates objects as an administrator.
    write: Any
    #: Tokens by name of service account.
    tokens: dict[str, str]


@pytest.fixture(scope="session")
def real_cluster(request, tmp_path_factory):
    server = request.getfixturevalue("real")

    def write(*objects):
        server.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=list(objects))

    accounts = [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": "default"}}
        for name in ("scraper", "nobody")
    ]
    write(*accounts, *RIGHTS)
    tokens = {
        name: server.kubectl("create", "token", name, "-n", "default").stdout.strip() for name in ("scraper", "nobody")
    }
    document = yaml.safe_load(server.kubeconfig.read_text())
    document["users"][0]["user"]["as"] = KEEPER
    path = tmp_path_factory.mktemp("keeper") / "kubeconfig"
    path.write_text(yaml.safe_dump(document))
    return Cluster(str(path), write, tokens)


@pytest.fixture
async def embedded_cluster(tmp_path):
    server = ApiServer()
    users = {f"{name}-token-0123456789": UserInfo(ACCOUNT.format(name)) for name in ("scraper", "nobody")}
    front = Front(server, settings=FrontSettings(users={"keeper-token": UserInfo(KEEPER), **users}))
    await front.start()

    def write(*objects):
        for obj in objects:
            resource = server.catalogue.of_kind(obj["apiVersion"], obj["kind"])
            namespace = obj["metadata"].get("namespace", "")
            if server.registry.has(resource, namespace, obj["metadata"]["name"]):
                server.registry.patch(resource, namespace, obj["metadata"]["name"], obj, kind="merge")
            else:
                server.create_all([obj])

    write(*RIGHTS)
    document = front.kubeconfig()
    document["users"][0]["user"] = {"token": "keeper-token"}
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(document))
    yield Cluster(str(path), write, {user.name.rpartition(":")[2]: token for token, user in users.items()})
    await front.stop()
    server.close()


@pytest.fixture(params=SERVER_KINDS)
def cluster(request):
    found = request.getfixturevalue(f"{request.param}_cluster")
    found.write(*READING, config_map())
    return found


def shown(request):
    """A page that shows the user, and which of the request's headers it sees."""
    remote = sorted(name.lower() for name in request.headers if name.lower().startswith(("x-remote", "authorization")))
    return text(json.dumps({"user": request.user.name, "groups": request.user.groups, "headers": remote}))


class Port:
    """The secure port of a process that delegates to one cluster."""

    def __init__(self, server, folder):
        self._server = server
        self._folder = folder
        self._session = aiohttp.ClientSession()

    async def get(self, path, *, certificate=None, token=None, method="GET", **headers):
        """One request over a connection of its own, like a separate client."""
        context = self._context(certificate)
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        if token is not None:
            fields["Authorization"] = f"Bearer {token}"
        url = f"https://127.0.0.1:{self._server.port}{path}"
        fields["Connection"] = "close"
        async with self._session.request(method, url, ssl=context, headers=fields) as response:
            body = await response.text()
            return response.status, json.loads(body) if body.startswith("{") else body

    def _context(self, certificate):
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        if certificate is not None:
            pem = self._folder / "client.pem"
            issued = CERTIFICATES.get(certificate, certificate)
            pem.write_bytes(certificate_and_key(issued))
            context.load_cert_chain(pem)
        return context

    async def close(self):
        await self._session.close()


def certificate_and_key(issued):
    if isinstance(issued.certificate, bytes):
        return issued.certificate + issued.key
    return issued.pem + issued.key_pem


@asynccontextmanager
async def opened(cluster, folder, metrics=None):
    connection = delegated_connection(cluster.kubeconfig, purpose="authentication")
    api = HttpApi(connection, client_settings=CLIENT_SETTINGS, limits=CLIENT_LIMITS, agent="test")
    made = await delegated(
        AuthenticationOptions(),
        AuthorizationOptions(),
        authentication_api=api,
        authorization_api=api,
        gate=lambda name: True,
        times=REAL_TIMES,
        metrics=metrics,
    )
    following = asyncio.create_task(made.run())
    server = SecureServer(
        ServingSettings(bind_address="127.0.0.1", port=0),
        pages=dict.fromkeys(("/healthz", "/metrics", "/configz"), shown),
        authenticator=made.authenticator,
        authorizer=made.authorizer,
    )
    await server.start()
    port = Port(server, folder)
    try:
        yield port
    finally:
        await port.close()
        await server.stop(grace=1)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await made.close()
        await api.close()


@pytest.fixture
async def port(cluster, tmp_path):
    async with opened(cluster, tmp_path) as port:
        yield port


def forbidden(user, path="/metrics", verb="get"):
    return 403, f'forbidden: User "{user}" cannot {verb} path "{path}"'


ANONYMOUS = "system:anonymous"


async def test_a_huge_token_is_refused(port):
    code, said = await port.get("/metrics", token="x" * 50_000)
    assert (code, said["message"]) == (401, "Unauthorized")


@pytest.mark.parametrize(
    ("path", "how", "user"),
    [
        pytest.param("/metrics", {"account": "scraper"}, ACCOUNT.format("scraper"), id="a token with the right"),
        pytest.param("/metrics", {"certificate": "proxy", "X_Remote_User": "carol"}, "carol", id="a front proxy"),
    ],
)
async def test_allowed_requests(port, cluster, path, how, user):
    how = dict(how)
    if "account" in how:
        how["token"] = cluster.tokens[how.pop("account")]
    code, said = await port.get(path, **how)
    assert (code, said["user"], said["headers"]) == (200, user, [])


async def until(ask, wanted):
    """Changes in the cluster take effect with a delay."""
    found = None
    for _ in range(SECONDS * 20):
        found = await ask()
        if found == wanted:
            return
        await asyncio.sleep(0.05)
    assert found == wanted


async def test_verdicts_through_the_api_servers_proxy(port, cluster):
    """The proxy removes the user's credentials; the roles of Headlamp's panel let it read verdicts, and no more."""
    where = "/stowplan/explain/shop/web-0"
    code, said = await port.get(where)
    assert (code, said["message"]) == forbidden(ANONYMOUS, where)
    cluster.write(*yaml.safe_load_all((ROOT / "headlamp" / "rbac.yaml").read_text()))

    async def code_now():
        return (await port.get(where))[0]

    # Allowed; this port has no such page.
    await until(code_now, 404)
    assert [(await port.get(path))[0] for path in ("/stowplan/pending", "/metrics")] == [403, 403]


async def test_certificate_authorities_are_replaced_at_run_time(port, cluster):
    new = make_ca("clients")
    renewed = make_client_certificate(new, "root", ("system:masters",))

    async def codes():
        return [(await port.get("/configz", certificate=one))[0] for one in ("root", renewed)]

    assert await codes() == [200, 401]
    cluster.write(config_map(new))
    await until(codes, [401, 200])


async def test_it_starts_without_any_right(cluster, tmp_path):
    """Without the right to read the ConfigMap tokens still work; the rest does once the right is granted."""
    cluster.write(role("Role", KEEPER, [rule("", "configmaps", "get", resourceNames=["other"])], namespace=NAMESPACE))
    async with opened(cluster, tmp_path) as port:
        assert (await port.get("/metrics", token=cluster.tokens["scraper"]))[0] == 200
        code, said = await port.get("/configz", certificate="root")
        assert (code, said["message"]) == forbidden(ANONYMOUS, "/configz")
        cluster.write(*READING)

        async def code_now():
            return (await port.get("/configz", certificate="root"))[0]

        await until(code_now, 200)


async def test_reviews_are_cached(cluster, tmp_path):
    metrics = ServingMetrics(MetricsRegistry())
    async with opened(cluster, tmp_path, metrics) as port:
        token = cluster.tokens["scraper"]
        answers = await asyncio.gather(*(port.get("/metrics", token=token) for _ in range(10)))
        assert [code for code, _ in answers] == [200] * 10
    reviews = metrics.apiserver_delegated_authn_request_total, metrics.apiserver_delegated_authz_request_total
    assert [review.with_label_values("201").value for review in reviews] == [1, 1]
