"""Users from headers of front proxies, which only front proxies may set."""

import pytest

from stowplan.kube.api.users import UserInfo
from stowplan.kube.timing.times import START
from stowplan.net.serving.authentication.client_certificates import UNKNOWN_AUTHORITY
from stowplan.net.serving.authentication.request_header import STANDARD, FrontProxy, RequestHeaders, without
from stowplan.net.serving.user import Rejected
from support.http.client_chains import SERVER_AUTH, TrustedAuthorities, authority, client
from support.serving.delegation import NOBODY, headers, presenting

PROXIES = authority("front-proxy-ca")
PROXY = client(PROXIES, "front-proxy")
ALICE = headers(X_Remote_User="alice")


def proxy(names=STANDARD, *, trusted=(PROXIES,)):
    return FrontProxy(TrustedAuthorities(*trusted), lambda: names, wall_clock=lambda: START)


async def user_of(given, names=STANDARD):
    return await proxy(names).identify(given, presenting(PROXY))


ODD = RequestHeaders(usernames=("x-a", "X-B"), groups=("x-g", "x-h"), uids=("x-u",), extra_prefixes=("x-e-", "x-f-"))


@pytest.mark.parametrize(
    ("given", "names", "user"),
    [
        pytest.param(headers(X_Remote_User="a"), STANDARD, UserInfo("a"), id="a name"),
        pytest.param(headers(("x-REMOTE-user", "a")), STANDARD, UserInfo("a"), id="in any case"),
        pytest.param(
            headers(("X-Remote-User", "a"), ("X-Remote-User", "b")), STANDARD, UserInfo("a"), id="the first of two"
        ),
        pytest.param(headers(x_b="b", x_a="a"), ODD, UserInfo("a"), id="the first header of those configured"),
        pytest.param(headers(x_b="b", x_a=""), ODD, UserInfo("b"), id="an empty one does not count"),
        pytest.param(headers(("x-a", ""), ("x-a", "a"), ("x-b", "b")), ODD, UserInfo("b"), id="nor does its second"),
        pytest.param(
            headers(("x-a", "a"), ("x-h", "3"), ("X-G", "1"), ("x-g", ""), ("x-g", "2")),
            ODD,
            UserInfo("a", groups=("1", "2", "3")),
            id="groups, header by header",
        ),
        pytest.param(headers(x_a="a", x_u="7"), ODD, UserInfo("a", uid="7"), id="a UID"),
        pytest.param(
            headers(("x-a", "a"), ("X-F-K", "3"), ("X-E-K", "1"), ("x-e-k", ""), ("x-e-Other%2fKEY", "4")),
            ODD,
            UserInfo("a", extra={"k": ("1", "", "3"), "other/key": ("4",)}),
            id="extra, prefix by prefix",
        ),
        pytest.param(
            headers(
                ("x-a", "a"),
                ("x-e-%zz", "1"),
                ("x-e-%ff", "2"),
                ("x-e-50%", "3"),
                ("x-e-%zz%41", "4"),
                ("x-e-%4%41", "5"),
            ),
            ODD,
            UserInfo("a", extra={"%zz": ("1",), "\ufffd": ("2",), "50%": ("3",), "%zz%41": ("4",), "%4%41": ("5",)}),
            id="extra keys that are badly encoded",
        ),
        pytest.param(
            headers(("x-a", "a\udcff"), ("x-g", "ä")),
            ODD,
            UserInfo("a\ufffd", groups=("ä",)),
            id="bytes that are no text",
        ),
        pytest.param(
            headers(x_a="system:masters", X_Remote_Group="system:masters"),
            ODD,
            UserInfo("system:masters"),
            id="no group",
        ),
        pytest.param(headers(X_Remote_Group="g"), STANDARD, None, id="groups of nobody"),
        pytest.param(headers(X_Remote_User=""), STANDARD, None, id="an empty name"),
        pytest.param(ALICE, RequestHeaders(), None, id="no header is configured"),
        pytest.param(headers(X_Remote_User_="a"), STANDARD, None, id="a longer header"),
        pytest.param(headers(("X_Remote_User", "a")), STANDARD, None, id="underscores are another header"),
    ],
)
async def test_headers_of_a_front_proxy(given, names, user):
    assert await user_of(given, names) == user


async def test_without_a_certificate_headers_are_ignored():
    assert await proxy().identify(ALICE, NOBODY) is None


async def test_without_authorities_headers_are_ignored():
    assert await proxy(trusted=()).identify(ALICE, presenting(PROXY)) is None


@pytest.mark.parametrize(
    ("presented", "why"),
    [
        pytest.param(client(authority("client-ca"), "front-proxy"), UNKNOWN_AUTHORITY, id="of another authority"),
        pytest.param(client(authority("front-proxy-ca"), "front-proxy"), UNKNOWN_AUTHORITY, id="of its namesake"),
        pytest.param(client(PROXIES, usages=[SERVER_AUTH]), "x509: certificate specifies an", id="a server's"),
    ],
)
async def test_headers_of_other_peers_are_ignored(presented, why):
    with pytest.raises(Rejected, match=why):
        await proxy().identify(ALICE, presenting(presented))


async def test_only_allowed_names_are_accepted():
    allowed = RequestHeaders(usernames=("x-remote-user",), allowed_names=("front-proxy", "other"))
    assert await user_of(ALICE, allowed) == UserInfo("alice")
    with pytest.raises(Rejected) as caught:
        await proxy(allowed).identify(ALICE, presenting(client(PROXIES, "front-proxy2")))
    assert str(caught.value) == "x509: subject with cn=front-proxy2 is not in the allowed list"


def test_pages_do_not_see_proxy_headers():
    given = headers(
        ("Accept", "a"),
        ("accept", "b"),
        ("authorization", "Bearer x"),
        ("x-remote-USER", "a"),
        ("X-Remote-Uid", "a"),
        ("X-Remote-Group", "a"),
        ("X-Remote-Group", "b"),
        ("X-Remote-Extra-Scopes", "a"),
        ("X-A", "a"),
        ("x-e-", "a"),
        ("X-Remote", "stays"),
    )
    left = without(given, STANDARD, ODD, names=("Authorization",))
    assert list(left.items()) == [("Accept", "a"), ("accept", "b"), ("X-Remote", "stays")]
