"""From flags to authentication and authorization, with upstream's messages for what cannot work."""

import asyncio
import json
import logging

import pytest
from msgspec.structs import asdict

from stowplan.app.command_line.flags.table import AUTHENTICATION, AUTHORIZATION
from stowplan.kube.api.api_errors import Forbidden, NotFound, Unauthorized
from stowplan.kube.api.meta import ObjectMeta
from stowplan.kube.api.port import Unreachable
from stowplan.kube.api.users import ConfigMap, SubjectAccessReviewStatus, UserInfo
from stowplan.kube.metrics.registry import MetricsRegistry
from stowplan.kube.metrics.serving import ServingMetrics
from stowplan.kube.timing.times import ManualTime, settle
from stowplan.net.client.connection import ProcessEnvironment
from stowplan.net.serving.authentication.lookup import NAME, NAMESPACE
from stowplan.net.serving.delegation import (
    AuthenticationOptions,
    AuthorizationOptions,
    DelegationError,
    check_authentication,
    delegated,
    delegated_connection,
)
from support.http.client_chains import authority, client
from support.http.kubeconfigs import a_kubeconfig, write_kubeconfig
from support.serving.delegation import NOBODY, ReviewingApi, bearer, headers, owned_by, presenting

CLIENTS, PROXIES = authority("clients"), authority("proxies")


class Cluster(ReviewingApi):
    """Answers reviews, and has the ConfigMap unless `trouble` is set."""

    def __init__(self):
        super().__init__()
        self.looked = []
        self.no_look = None
        self.data = {
            "client-ca-file": CLIENTS.pem.decode(),
            "requestheader-client-ca-file": PROXIES.pem.decode(),
            "requestheader-username-headers": json.dumps(["X-Remote-User"]),
            "requestheader-group-headers": json.dumps(["X-Remote-Group"]),
        }
        self.tokens["bob's"] = owned_by("bob")
        self.rights["bob", "get", "/metrics"] = SubjectAccessReviewStatus(allowed=True)

    async def get(self, kind, name, *, namespace=""):
        self.looked.append((kind, namespace, name))
        if self.no_look is not None:
            raise self.no_look
        return ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace), data=self.data)


class World:
    def __init__(self):
        self.time = ManualTime()
        self.cluster = Cluster()
        self.made = []

    async def delegated(self, authentication=None, authorization=None, **changes):
        options = {
            "authentication_api": self.cluster,
            "authorization_api": self.cluster,
            "gate": lambda name: True,
            "times": self.time,
            **changes,
        }
        made = await delegated(
            authentication or AuthenticationOptions(), authorization or AuthorizationOptions(), **options
        )
        self.made.append(made)
        return made


@pytest.fixture
async def world():
    world = World()
    yield world
    for made in world.made:
        await made.close()


@pytest.mark.parametrize(
    ("flags", "options"), [(AUTHENTICATION, AuthenticationOptions), (AUTHORIZATION, AuthorizationOptions)]
)
def test_options_are_the_flags(flags, options):
    assert {flag.name: flag.default for flag in flags} == {
        name.replace("_", "-"): value for name, value in asdict(options()).items()
    }


async def test_everything_from_the_cluster(world, caplog):
    made = await world.delegated(metrics=ServingMetrics(MetricsRegistry()))

    async def who(given, peer):
        return (await made.authenticator.authenticate(given, peer)).name

    assert await who(headers(), presenting(client(CLIENTS, "alice"))) == "alice"
    assert await who(headers(X_Remote_User="carol"), presenting(client(PROXIES, "p"))) == "carol"
    assert await who(bearer("bob's"), NOBODY) == "bob"
    assert await who(headers(X_Remote_User="carol"), NOBODY) == "system:anonymous"
    for given, peer in ((bearer("no"), NOBODY), (headers(), presenting(client(authority("x"))))):
        with pytest.raises(Unauthorized):
            await who(given, peer)
    bob = await made.authenticator.authenticate(bearer("bob's"), NOBODY)
    await made.authorizer.authorize(bob, verb="get", path="/metrics")
    with pytest.raises(Forbidden):
        await made.authorizer.authorize(bob, verb="delete", path="/metrics")
    assert world.cluster.looked == [(ConfigMap, NAMESPACE, NAME)]
    assert [record for record in caplog.records if "Unable to authenticate" not in record.getMessage()] == []


async def test_files_have_precedence_over_the_cluster(world, tmp_path):
    own, own_proxies = authority("own"), authority("own proxies")
    (tmp_path / "ca.crt").write_bytes(own.pem)
    (tmp_path / "proxies.crt").write_bytes(own_proxies.pem)
    made = await world.delegated(
        AuthenticationOptions(
            client_ca_file=str(tmp_path / "ca.crt"),
            requestheader_client_ca_file=str(tmp_path / "proxies.crt"),
            requestheader_username_headers=("x-who",),
            requestheader_allowed_names=("gate",),
        )
    )
    assert world.cluster.looked == []
    authenticate = made.authenticator.authenticate
    assert (await authenticate(headers(), presenting(client(own, "alice")))).name == "alice"
    assert (await authenticate(headers(X_Who="carol"), presenting(client(own_proxies, "gate")))).name == "carol"
    assert list(made.authenticator.without_credentials(headers(X_Who="a", X_Remote_User="b"))) == []
    with pytest.raises(Unauthorized):
        await authenticate(headers(), presenting(client(CLIENTS, "alice")))
    # Nothing is left to be watched.
    await made.run()
    (tmp_path / "ca.crt").write_bytes(CLIENTS.pem)
    await world.time.advance(1.1)
    assert (await authenticate(headers(), presenting(client(CLIENTS, "alice")))).name == "alice"


async def test_a_file_and_the_cluster(world, tmp_path):
    own = authority("own")
    (tmp_path / "ca.crt").write_bytes(own.pem)
    made = await world.delegated(AuthenticationOptions(client_ca_file=str(tmp_path / "ca.crt")))
    authenticate = made.authenticator.authenticate
    assert (await authenticate(headers(X_Remote_User="c"), presenting(client(PROXIES, "p")))).name == "c"
    with pytest.raises(Unauthorized):
        await authenticate(headers(), presenting(client(CLIENTS, "alice")))


async def test_lookup_can_be_skipped(world, caplog):
    made = await world.delegated(AuthenticationOptions(authentication_skip_lookup=True))
    await made.run()
    assert world.cluster.looked == []
    user = await made.authenticator.authenticate(headers(), presenting(client(CLIENTS, "alice")))
    assert user.name == "system:anonymous"
    assert (await made.authenticator.authenticate(bearer("bob's"), NOBODY)).name == "bob"
    assert not caplog.records


async def test_without_api_server(world, caplog):
    made = await world.delegated(authentication_api=None, authorization_api=None)
    await made.run()
    where = "configmap/extension-apiserver-authentication in kube-system"
    assert caplog.messages == [
        f"No authentication-kubeconfig provided in order to lookup client-ca-file in {where}, "
        "so client certificate authentication won't work.",
        f"No authentication-kubeconfig provided in order to lookup requestheader-client-ca-file in {where}, "
        "so request-header client certificate authentication won't work.",
        "No authorization-kubeconfig provided, so SubjectAccessReview of authorization tokens won't work.",
    ]
    user = await made.authenticator.authenticate(bearer("bob's"), presenting(client(CLIENTS)))
    assert user.name == "system:anonymous"
    await made.authorizer.authorize(user, verb="get", path="/healthz")
    with pytest.raises(Forbidden):
        await made.authorizer.authorize(user, verb="get", path="/metrics")


async def test_without_api_server_and_lookup(world, caplog):
    await world.delegated(AuthenticationOptions(authentication_skip_lookup=True), authentication_api=None)
    assert not caplog.records


async def test_a_failed_lookup_is_tolerated(world, caplog):
    world.cluster.no_look = Unreachable("https://s: connection refused")
    await world.delegated()
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 3
    assert caplog.messages == [
        "Error looking up in-cluster authentication configuration: https://s: connection refused",
        "Continuing without authentication configuration. This may treat all requests as anonymous.",
        "To require authentication configuration lookup to succeed, set --authentication-tolerate-lookup-failure=false",
    ]


async def test_a_failed_lookup_is_not_tolerated(world):
    world.cluster.no_look = Unreachable("https://s: connection refused")
    with pytest.raises(DelegationError) as caught:
        await world.delegated(AuthenticationOptions(authentication_tolerate_lookup_failure=False))
    assert str(caught.value) == (
        "unable to load configmap based request-header-client-ca-file: https://s: connection refused"
    )


async def test_a_missing_configmap_is_not_an_error(world, caplog):
    world.cluster.no_look = NotFound("configmaps not found")
    await world.delegated(AuthenticationOptions(authentication_tolerate_lookup_failure=False))
    assert not caplog.records


@pytest.mark.parametrize("tolerated", [True, False], ids=["failures tolerated", "for clients alone"])
async def test_lookup_times_out_after_five_seconds(world, tmp_path, tolerated):
    async def silence(*args, **options):
        await asyncio.Event().wait()

    (tmp_path / "ca.crt").write_bytes(PROXIES.pem)
    world.cluster.get = silence
    options = AuthenticationOptions(
        authentication_tolerate_lookup_failure=tolerated,
        requestheader_client_ca_file="" if tolerated else str(tmp_path / "ca.crt"),
    )
    starting = asyncio.ensure_future(world.delegated(options))
    await world.time.advance(4.9)
    assert not starting.done()
    await world.time.advance(0.2)
    assert starting.done()
    await starting


async def test_a_failed_lookup_of_client_authorities_is_left_to_the_watch(world, tmp_path, caplog):
    (tmp_path / "ca.crt").write_bytes(PROXIES.pem)
    world.cluster.no_look = Unreachable("gone")
    await world.delegated(
        AuthenticationOptions(
            requestheader_client_ca_file=str(tmp_path / "ca.crt"), authentication_tolerate_lookup_failure=False
        )
    )
    assert not caplog.records


@pytest.mark.parametrize(
    ("flag", "content", "why"),
    [
        pytest.param(
            "client_ca_file",
            None,
            "unable to load client CA provider: open {path}: no such file or directory",
            id="no client CA",
        ),
        pytest.param(
            "requestheader_client_ca_file",
            None,
            "unable to create request header authentication config: open {path}: no such file or directory",
            id="no front proxies' CA",
        ),
    ],
)
async def test_invalid_authority_files(world, tmp_path, flag, content, why):
    path = tmp_path / "ca.crt"
    if content is not None:
        path.write_text(content)
    with pytest.raises(DelegationError) as caught:
        await world.delegated(AuthenticationOptions(**{flag: str(path)}))
    assert str(caught.value) == why.format(path=path)


async def test_invalid_always_allowed_paths(world):
    with pytest.raises(DelegationError, match="only trailing") as caught:
        await world.delegated(authorization=AuthorizationOptions(authorization_always_allow_paths=("/a*b",)))
    assert str(caught.value) == 'only trailing * allowed in "a*b"'


# --- flags by themselves


@pytest.mark.parametrize(
    ("options", "errors", "warnings"),
    [
        pytest.param({}, [], [], id="defaults"),
        pytest.param(
            {
                "requestheader_username_headers": ("x-remote-user", " "),
                "requestheader_group_headers": ("X-REMOTE-GROUP", ""),
                "requestheader_extra_headers_prefix": ("\t", "x-remote-extra-"),
                "requestheader_allowed_names": ("",),
                "requestheader_uid_headers": ("x-remote-uid", ""),
            },
            [
                'empty value in "requestheader-username-headers"',
                'empty value in "requestheader-group-headers"',
                'empty value in "requestheader-extra-headers-prefix"',
                'empty value in "requestheader-allowed-names"',
                'empty value in "requestheader-uid-headers"',
            ],
            [],
            id="empty values",
        ),
        pytest.param(
            {
                "requestheader_username_headers": ("x-a",),
                "requestheader_group_headers": ("x-a",),
                "requestheader_extra_headers_prefix": ("x-a",),
                "requestheader_uid_headers": ("x-a",),
            },
            [
                "--requestheader-uid-headers is set without specifying the standard X-Remote-Uid header "
                "- API aggregation will not work"
            ],
            [
                "--requestheader-username-headers is set without specifying the standard X-Remote-User header "
                "- API aggregation will not work",
                "--requestheader-group-headers is set without specifying the standard X-Remote-Group header "
                "- API aggregation will not work",
                "--requestheader-extra-headers-prefix is set without specifying the standard X-Remote-Extra- header "
                "prefix - API aggregation will not work",
            ],
            id="other headers than the aggregator's",
        ),
    ],
)
def test_flags_are_checked(caplog, options, errors, warnings):
    assert check_authentication(AuthenticationOptions(**options), gate=lambda name: True) == errors
    assert caplog.messages == warnings


def test_uid_headers_need_their_gate():
    options = AuthenticationOptions(requestheader_uid_headers=("x-remote-uid",))

    def gate(name):
        return name != "RemoteRequestHeaderUID"

    assert check_authentication(options, gate=gate) == [
        '--requestheader-uid-headers requires the "RemoteRequestHeaderUID" feature to be enabled'
    ]
    assert check_authentication(AuthenticationOptions(), gate=gate) == []


# --- API server for reviews


def environment(tmp_path, **environ):
    return ProcessEnvironment(environ=environ, service_account=tmp_path / "account")


POD = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}


def test_the_kubeconfig_names_the_api_server(tmp_path):
    path = write_kubeconfig(tmp_path / "config", a_kubeconfig(cluster={"server": "https://127.0.0.1:1"}))
    found = delegated_connection(path, purpose="authorization", environment=environment(tmp_path, **POD))
    assert found.server == "https://127.0.0.1:1"


@pytest.mark.parametrize(
    ("purpose", "why"),
    [
        (
            "authentication",
            "failed to get delegated authentication kubeconfig: failed to get delegated authentication kubeconfig: "
            "stat /nope: no such file or directory",
        ),
        ("authorization", "failed to get delegated authorization kubeconfig: stat /nope: no such file or directory"),
    ],
)
def test_a_missing_kubeconfig(tmp_path, purpose, why):
    with pytest.raises(DelegationError) as caught:
        delegated_connection("/nope", purpose=purpose, environment=environment(tmp_path))
    assert str(caught.value) == why


def test_outside_of_a_cluster_there_is_no_api_server(tmp_path, caplog):
    assert delegated_connection("", purpose="authentication", environment=environment(tmp_path)) is None
    assert not caplog.records


def test_a_pod_uses_its_cluster(tmp_path, caplog):
    (tmp_path / "account").mkdir()
    (tmp_path / "account" / "token").write_text("t")
    (tmp_path / "account" / "ca.crt").write_bytes(CLIENTS.pem)
    found = delegated_connection("", purpose="authentication", environment=environment(tmp_path, **POD))
    assert found.server == "https://10.96.0.1:443"
    assert not caplog.records


def test_a_pod_without_a_service_account_has_no_api_server(tmp_path, caplog):
    assert delegated_connection("", purpose="authentication", environment=environment(tmp_path, **POD)) is None
    assert caplog.messages == [
        "failed to read in-cluster kubeconfig for delegated authentication: "
        f"open {tmp_path / 'account' / 'token'}: no such file or directory"
    ]


async def test_closing_cancels_reviews(world):
    made = await world.delegated()
    world.cluster.hold()
    asking = [
        asyncio.ensure_future(made.authenticator.authenticate(bearer("bob's"), NOBODY)),
        asyncio.ensure_future(made.authorizer.authorize(UserInfo("bob"), verb="get", path="/metrics")),
    ]
    await settle()
    await made.close()
    await settle()
    assert [task.cancelled() for task in asking] == [True, True]
