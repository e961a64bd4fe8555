"""Order of the authentication methods, and requests that none of them accepts."""

import logging

import pytest

from stowplan.kube.api.api_errors import Unauthorized
from stowplan.kube.api.users import UserInfo
from stowplan.kube.metrics.registry import MetricsRegistry
from stowplan.kube.metrics.serving import ServingMetrics
from stowplan.kube.timing.times import START, ManualTime
from stowplan.net.serving.authentication.authenticator import DelegatedAuthenticator
from stowplan.net.serving.authentication.client_certificates import ClientCertificates
from stowplan.net.serving.authentication.request_header import STANDARD, FrontProxy, RequestHeaders
from stowplan.net.serving.authentication.tokens import BearerTokens, WebSocketTokens
from stowplan.net.serving.user import Rejected
from support.http.client_chains import TrustedAuthorities, authority, client
from support.serving.delegation import NOBODY, bearer, headers, presenting

CLIENTS, PROXIES = authority("clients"), authority("proxies")
ALICE, PROXY = client(CLIENTS, "alice", ["staff"]), client(PROXIES, "proxy")
STRANGER = client(authority("clients"), "alice", ["system:masters"])
TOKENS = {"bob's": UserInfo("bob", groups=("staff",)), "nobody's": UserInfo("system:anonymous")}


class Owners:
    async def owner_of(self, token, *, source):
        if token == "trouble":
            raise Rejected("the API server is gone")
        return TOKENS.get(token)


OWNERS = Owners()


def authenticator(*, clients=(CLIENTS,), proxies=(PROXIES,), names=STANDARD, owners=OWNERS, metrics=None):
    def wall_clock():
        return START

    methods = [
        FrontProxy(TrustedAuthorities(*proxies), lambda: names, wall_clock=wall_clock),
        ClientCertificates(TrustedAuthorities(*clients), wall_clock=wall_clock, uid_allowed=True),
    ]
    if owners is not None:
        methods += [BearerTokens(owners), WebSocketTokens(owners)]
    return DelegatedAuthenticator(methods, clock=ManualTime().clock, headers=lambda: names, metrics=metrics)


SAYS_CAROL = headers(X_Remote_User="carol", X_Remote_Group="staff", Authorization="Bearer bob's")
SPOOFED = headers(X_Remote_User="admin", X_Remote_Group="system:masters")
ANONYMOUS = ("system:anonymous", ("system:unauthenticated",))
STAFF = ("staff", "system:authenticated")


@pytest.mark.parametrize(
    ("given", "peer", "who"),
    [
        pytest.param(headers(), NOBODY, ANONYMOUS, id="nothing: anonymous"),
        pytest.param(headers(Authorization="Basic eDp5"), NOBODY, ANONYMOUS, id="a scheme we do not speak: anonymous"),
        pytest.param(SAYS_CAROL, presenting(PROXY), ("carol", STAFF), id="a front proxy before a token"),
        pytest.param(headers(), presenting(ALICE), ("alice", STAFF), id="a certificate"),
        pytest.param(bearer("bob's"), NOBODY, ("bob", STAFF), id="a token"),
        pytest.param(bearer("bob's"), presenting(ALICE), ("alice", STAFF), id="a certificate before a token"),
        pytest.param(bearer("wrong"), presenting(ALICE), ("alice", STAFF), id="a certificate beside a wrong token"),
        pytest.param(bearer("bob's"), presenting(STRANGER), ("bob", STAFF), id="a token beside a wrong certificate"),
        pytest.param(bearer("bob's"), presenting(PROXY), ("bob", STAFF), id="a front proxy without a user name"),
        pytest.param(SAYS_CAROL, presenting(ALICE), ("alice", STAFF), id="headers of a client that is no proxy"),
        pytest.param(SPOOFED, NOBODY, ANONYMOUS, id="headers without a certificate"),
        pytest.param(bearer("nobody's"), NOBODY, ("system:anonymous", ()), id="a token of the anonymous user"),
        pytest.param(
            headers(X_Remote_User="dave", X_Remote_Group="system:unauthenticated"),
            presenting(PROXY),
            ("dave", ("system:unauthenticated",)),
            id="a front proxy that says it is nobody",
        ),
        pytest.param(
            headers(X_Remote_User="dave", X_Remote_Group="system:authenticated"),
            presenting(PROXY),
            ("dave", ("system:authenticated",)),
            id="no group twice",
        ),
    ],
)
async def test_the_authenticated_user(given, peer, who):
    user = await authenticator().authenticate(given, peer)
    assert (user.name, user.groups) == who


@pytest.mark.parametrize(
    ("given", "peer"),
    [
        pytest.param(bearer("wrong"), NOBODY, id="a wrong token"),
        pytest.param(bearer("trouble"), NOBODY, id="a token that nobody can check"),
        pytest.param(headers(), presenting(STRANGER), id="a certificate of another authority of the same name"),
        pytest.param(bearer("wrong"), presenting(STRANGER), id="both wrong"),
        pytest.param(SPOOFED, presenting(STRANGER), id="headers with a wrong certificate"),
        pytest.param(headers(), presenting(PROXY), id="a front proxy that is no client and names nobody"),
        pytest.param(bearer("x" * 100_000), NOBODY, id="a huge token"),
    ],
)
async def test_invalid_credentials_are_refused(given, peer):
    with pytest.raises(Unauthorized) as caught:
        await authenticator().authenticate(given, peer)
    status = caught.value.status
    assert (status.code, status.reason, status.message) == (401, "Unauthorized", "Unauthorized")


async def test_all_errors_are_logged(caplog):
    with pytest.raises(Unauthorized):
        await authenticator().authenticate(bearer("trouble"), presenting(STRANGER))
    unknown = "x509: certificate signed by unknown authority"
    number = STRANGER.certificate.serial_number
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.getMessage() == (
        f'Unable to authenticate the request err="[{unknown}, verifying certificate SN={number}, SKID=, AKID= failed: '
        f'{unknown}, the API server is gone]"'
    )


@pytest.mark.parametrize(
    ("given", "peer"),
    [
        pytest.param(bearer("bob's"), NOBODY, id="a token, with nobody to ask"),
        pytest.param(headers(), presenting(ALICE), id="a certificate, with no authorities"),
        pytest.param(SAYS_CAROL, presenting(PROXY), id="a front proxy, with no authorities"),
    ],
)
async def test_credentials_without_a_checker_are_ignored(given, peer):
    user = await authenticator(clients=(), proxies=(), owners=None).authenticate(given, peer)
    assert (user.name, user.groups) == ANONYMOUS


def test_pages_see_no_credentials():
    names = RequestHeaders(usernames=("X-Own-User",))
    given = headers(
        ("Authorization", "Bearer t"),
        ("X-Remote-User", "a"),
        ("X-Own-User", "a"),
        ("Sec-WebSocket-Protocol", "base64url.bearer.authorization.k8s.io.dA, v4"),
        ("Sec-WebSocket-Protocol", "v5"),
        ("Accept", "text/plain"),
    )
    left = authenticator(names=names).without_credentials(given)
    assert list(left.items()) == [("Accept", "text/plain"), ("Sec-WebSocket-Protocol", "v4,v5")]
    assert list(authenticator().without_credentials(headers(Accept="a")).items()) == [("Accept", "a")]


async def test_metrics_do_not_contain_user_names():
    metrics = ServingMetrics(MetricsRegistry())
    method = authenticator(metrics=metrics)
    for given in (headers(), bearer("bob's"), bearer("bob's")):
        await method.authenticate(given, NOBODY)
    for name in ("ann@example.com", "kubelet"):
        await method.authenticate(headers(X_Remote_User=name), presenting(PROXY))
    with pytest.raises(Unauthorized):
        await method.authenticate(bearer("wrong"), NOBODY)
    attempts = metrics.authentication_attempts
    assert [attempts.with_label_values(result).value for result in ("success", "error", "failure")] == [5, 1, 0]
    users = metrics.authenticated_user_requests
    assert [users.with_label_values(name).value for name in ("other", "email_id", "kubelet")] == [3, 1, 1]
