"""A single request: when it is retried, the delays, and the errors of failures."""

import asyncio
import socket
import ssl
from contextlib import ExitStack, suppress
from email.utils import formatdate

import pytest

from stowplan.kube.api.api_errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Expired,
    Forbidden,
    InternalError,
    Invalid,
    MethodNotAllowed,
    NotAcceptable,
    NotFound,
    RequestEntityTooLarge,
    ServiceUnavailable,
    Timeout,
    TooManyRequests,
    Unauthorized,
    UnsupportedMediaType,
)
from stowplan.kube.api.port import Unreachable
from stowplan.kube.api.types import Event, Lease, Node, ObjectMeta, Pod
from stowplan.net.client.client_errors import OutcomeUnknown
from stowplan.net.client.credentials.request_credentials import UserCredentials, bearer
from stowplan.net.client.endpoint.file_content import InlineContent
from stowplan.net.client.endpoint.tls import TlsSettings
from stowplan.net.client.http.responses import retry_after_seconds
from stowplan.net.client.http.transport import Limits
from support.api.clients import AGENT, NOW, SHORT, VirtualTime, a_pod, an_api
from support.http.certificates import make_ca, make_server_certificate
from support.http.misbehaving_server import (
    Misbehaving,
    answers,
    closes,
    does,
    hangs,
    resets,
    sends,
    status,
    streams,
    trickles,
)

POD = answers(200, a_pod())
LEASE = Lease(metadata=ObjectMeta(name="l", namespace="kube-system", resource_version="5"))


async def get(api):
    return await api.get(Pod, "web-0", namespace="default")


# -- retries


@pytest.mark.parametrize(
    ("trouble", "tries"),
    [
        pytest.param(resets, 2, id="reset"),
        pytest.param(closes, 2, id="closed without an answer"),
        pytest.param(sends(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"), 2, id="answer cut off"),
        pytest.param(sends(b"\x15\x03\x01\x00\x02\x02\x16"), 2, id="no HTTP"),
        pytest.param(streams(b"{", then="cut"), 2, id="chunk cut off"),
        pytest.param(hangs, 2, id="timeout"),
        pytest.param(answers(429), 2, id="429"),
        pytest.param(answers(500), 2, id="500"),
        pytest.param(answers(502, b"<html>", content_type="text/html"), 2, id="502"),
        pytest.param(answers(503), 2, id="503"),
        pytest.param(answers(504), 2, id="504"),
    ],
)
async def test_reads_are_retried(trouble, tries):
    time = VirtualTime()
    async with Misbehaving(trouble, POD) as server, an_api(server, time=time, limits=SHORT) as api:
        assert (await get(api)).metadata.name == "web-0"
        assert len(server.seen) == tries
    assert time.slept == [0.1]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        pytest.param(answers(400), BadRequest, id="400"),
        pytest.param(answers(403, status(403, "Forbidden")), Forbidden, id="403"),
        pytest.param(answers(404, status(404, "NotFound")), NotFound, id="404"),
        pytest.param(answers(501), InternalError, id="501"),
    ],
)
async def test_permanent_errors_are_not_retried(answer, error):
    async with Misbehaving(answer, POD) as server, an_api(server) as api:
        with pytest.raises(error):
            await get(api)
        assert len(server.seen) == 1


def _created(api):
    return api.create(LEASE)


def _updated(api):
    return api.update(LEASE)


def _patched(api):
    return api.patch(Node, "n", {"spec": {}}, type_="merge")


def _deleted(api):
    return api.delete(Node, "n", uid="u")


WRITES = pytest.mark.parametrize(
    "write",
    [
        pytest.param(_created, id="create"),
        pytest.param(_updated, id="update"),
        pytest.param(_patched, id="patch"),
        pytest.param(_deleted, id="delete"),
    ],
)


@WRITES
@pytest.mark.parametrize(
    "refusal",
    [
        pytest.param(answers(429), id="429"),
        pytest.param(answers(429, headers={"Retry-After": "0"}), id="429 with Retry-After"),
        pytest.param(answers(503, headers={"Retry-After": "0"}), id="503 with Retry-After"),
    ],
)
async def test_writes_are_retried_if_the_server_did_not_act(write, refusal):
    async with Misbehaving(refusal, refusal, answers(200, {})) as server, an_api(server) as api:
        await write(api)
        assert len(server.seen) == 3
        assert len({seen.body for seen in server.seen}) == 1


@WRITES
@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param(resets, id="reset"),
        pytest.param(closes, id="closed"),
        pytest.param(hangs, id="silent"),
        pytest.param(answers(200, b"<html>hello", content_type="text/html"), id="a login page"),
    ],
)
async def test_writes_are_not_retried_if_the_server_may_have_acted(write, trouble):
    async with Misbehaving(trouble, answers(200, {})) as server, an_api(server, limits=SHORT) as api:
        with pytest.raises(OutcomeUnknown):
            await write(api)
        assert len(server.seen) == 1


@WRITES
async def test_writes_are_not_retried_when_a_reused_connection_broke(write):
    trouble = does(lambda seen: None, resets)
    async with Misbehaving(POD, trouble, answers(200, {})) as server, an_api(server) as api:
        await get(api)
        with pytest.raises(OutcomeUnknown):
            await write(api)
        assert len(server.seen) == 2
        assert server.connections == 1


@WRITES
@pytest.mark.parametrize(("code", "error"), [(500, InternalError), (503, ServiceUnavailable)])
async def test_writes_are_not_retried_after_a_server_error(write, code, error):
    async with Misbehaving(answers(code), answers(200, {})) as server, an_api(server) as api:
        with pytest.raises(error):
            await write(api)
        assert len(server.seen) == 1


async def test_an_event_is_retried_and_may_exist_then():
    event = Event(metadata=ObjectMeta(name="e.1", namespace="default"), reason="Scheduled")
    async with (
        Misbehaving(resets, answers(409, status(409, "AlreadyExists"))) as server,
        an_api(server) as api,
    ):
        assert await api.create(event, lane="event") == event
        assert len(server.seen) == 2


async def test_an_event_that_existed_before_is_an_error():
    event = Event(metadata=ObjectMeta(name="e.1", namespace="default"))
    async with Misbehaving(answers(409, status(409, "AlreadyExists"))) as server, an_api(server) as api:
        with pytest.raises(ApiError, match="no"):
            await api.create(event, lane="event")


async def test_an_object_that_exists_after_a_refusal_is_an_error():
    async with (
        Misbehaving(answers(429), answers(409, status(409, "AlreadyExists"))) as server,
        an_api(server) as api,
    ):
        with pytest.raises(ApiError, match="no"):
            await api.create(LEASE)


@WRITES
async def test_a_connection_refused_is_a_definite_failure_of_writes(write):
    async with Misbehaving() as server:
        url = server.url
    time = VirtualTime()
    async with an_api(url, time=time) as api:
        with pytest.raises(Unreachable, match="connection refused") as caught:
            await write(api)
    assert not isinstance(caught.value, OutcomeUnknown)
    assert time.slept == [0.1, 0.2, 0.4]


async def test_at_shutdown_a_dead_server_is_not_waited_for():
    async with Misbehaving() as server:
        url = server.url
    time = VirtualTime()
    async with an_api(url, time=time) as api:
        api.give_up_waiting()
        for why in ["connection refused"] * 16 + ["not sent, as the server could not be reached"] * 2:
            with pytest.raises(Unreachable, match=why):
                await _created(api)
    assert time.slept == []


async def test_at_shutdown_a_server_that_answers_is_not_dead():
    async with Misbehaving(*[answers(429), POD] * 20) as server, an_api(server, time=VirtualTime()) as api:
        api.give_up_waiting()
        for _ in range(20):
            await get(api)


async def test_a_wait_for_a_dead_server_ends_at_shutdown():
    async with Misbehaving() as server:
        url = server.url
    time, sleeping = VirtualTime(), asyncio.Event()

    async def forever():
        sleeping.set()
        await asyncio.Event().wait()

    time.meanwhile = forever
    async with an_api(url, time=time) as api:
        getting = asyncio.create_task(get(api))
        await sleeping.wait()
        api.give_up_waiting()
        with pytest.raises(Unreachable, match="connection refused"):
            await getting


# -- delays


async def test_delays_double_up_to_a_limit():
    time = VirtualTime()
    async with Misbehaving(*[answers(429)] * 20) as server, an_api(server, time=time) as api:
        with pytest.raises(TooManyRequests):
            await get(api)
        assert len(server.seen) == 8
    assert time.slept == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4])


async def test_delays_are_jittered():
    time = VirtualTime(chance=0.5)
    async with Misbehaving(answers(429), answers(429), POD) as server, an_api(server, time=time) as api:
        await get(api)
    assert time.slept == pytest.approx([0.15, 0.3])


@pytest.mark.parametrize(
    ("header", "wait"),
    [
        pytest.param("7", 7.0, id="seconds"),
        pytest.param("0", 0.0, id="at once"),
        pytest.param(formatdate(NOW + 9, usegmt=True), 9.0, id="a date"),
        pytest.param(formatdate(NOW - 9, usegmt=True), 0.0, id="a date in the past"),
        pytest.param("3600", 30.0, id="too long"),
        pytest.param("9" * 5000, 30.0, id="absurdly long"),
        pytest.param("soon", 0.0, id="nonsense"),
        pytest.param("-1", 0.0, id="negative"),
        pytest.param("Mon, 99 Zzz 2027 00:00:00 GMT", 0.0, id="no date"),
    ],
)
async def test_retry_after_is_respected(header, wait):
    time = VirtualTime()
    refusal = answers(429, headers={"Retry-After": header})
    async with Misbehaving(refusal, POD) as server, an_api(server, time=time) as api:
        await get(api)
    assert time.slept == [pytest.approx(wait + 0.1)]


async def test_retries_end_at_the_deadline():
    time = VirtualTime()
    refusal = answers(429, headers={"Retry-After": "25"})
    async with Misbehaving(*[refusal] * 9) as server, an_api(server, time=time) as api:
        with pytest.raises(TooManyRequests) as caught:
            await get(api)
        assert len(server.seen) == 3
    assert caught.value.retry_after_seconds == 25


async def test_a_connection_that_is_not_accepted_times_out():
    """The server exists and does not accept: its backlog is full, as behind a firewall that drops packets."""
    limits = Limits(connect=0.1, connection_tries=1)
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full, ExitStack() as queue:
        for _ in range(3):
            waiting = queue.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        async with an_api(f"http://127.0.0.1:{full.getsockname()[1]}", limits=limits) as api, asyncio.timeout(5):
            with pytest.raises(Unreachable, match="no connection within the time limit") as caught:
                await _deleted(api)
    assert not isinstance(caught.value, OutcomeUnknown)


async def test_a_trickling_response_times_out():
    limits = Limits(silence=1.0, total=0.1, connection_tries=1)
    trickle = trickles(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", every=0.02)
    async with Misbehaving(trickle) as server, an_api(server, limits=limits) as api:
        with pytest.raises(Unreachable, match="not complete within the time limit"):
            await get(api)


def test_retry_after_may_be_missing():
    assert retry_after_seconds({}, now=0.0) is None


# -- errors


@pytest.mark.parametrize(
    ("action", "message"),
    [
        pytest.param(
            answers(200, b"<html>\n <body>Please log in", content_type="text/html; charset=utf-8"),
            r'something with content type text/html: "<html> <body>Please log in"',
            id="a login page",
        ),
        pytest.param(answers(200, b"not JSON"), "the response is not an object", id="no JSON"),
        pytest.param(answers(200, b"[1]"), "the response is not an object", id="no object"),
        pytest.param(answers(200, b'{"metadata":{"name":"\xff"}}'), "the response is not an object", id="no UTF-8"),
    ],
)
async def test_unreachable_says_why(action, message):
    limits = Limits(silence=0.05, tries=1, connection_tries=1)
    async with Misbehaving(action) as server, an_api(server, limits=limits) as api:
        with pytest.raises(Unreachable, match=message):
            await get(api)


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        pytest.param(
            answers(403, b"<html>blocked by policy", content_type="text/html"),
            Forbidden,
            r"the server refused the request \(get pods web-0\): no Kubernetes API answered but something with "
            r'content type text/html: "<html>blocked by policy"',
            id="HTML",
        ),
        pytest.param(answers(404, b"404 page not found", content_type="text/plain"), NotFound, "404 page", id="text"),
        pytest.param(
            answers(404, b""), NotFound, r"the server could not find the requested resource \(get pods web-0\)$", id="-"
        ),
        pytest.param(answers(418, b""), ApiError, "status code 418 but did not return more", id="a code without class"),
        pytest.param(
            answers(302, b"", headers={"Location": "https://login.example/?token=s3cret"}),
            ApiError,
            "redirects to https://login.example/ .*not followed",
            id="redirect",
        ),
        pytest.param(answers(404, {"kind": "Status", "message": 5}), NotFound, "no Kubernetes API", id="bad Status"),
        pytest.param(answers(400, {"error": "x"}), BadRequest, "no Kubernetes API", id="other JSON"),
        pytest.param(answers(422, status(422, "", "m")), ApiError, "^m$", id="Status without a reason"),
        pytest.param(answers(422, status(422, "Novel", "m")), ApiError, "^m$", id="Status with a new reason"),
    ],
)
async def test_errors_are_typed_and_name_the_server(answer, error, message):
    async with Misbehaving(answer) as server, an_api(server) as api:
        with pytest.raises(error, match=message) as caught:
            await get(api)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("code", "error", "message"),
    [
        (400, BadRequest, "the server rejected our request for an unknown reason"),
        (401, Unauthorized, "the server has asked for the client to provide credentials"),
        (403, Forbidden, "the server refused the request"),
        (404, NotFound, "the server could not find the requested resource"),
        (405, MethodNotAllowed, "the server does not allow this method on the requested resource"),
        (406, NotAcceptable, "the server was unable to respond with a content type that the client supports"),
        (410, Expired, "the server no longer keeps what was asked for"),
        (413, RequestEntityTooLarge, "the server found the request too large"),
        (415, UnsupportedMediaType, "the server does not understand the content type of the request"),
        (422, Invalid, "the server rejected our request due to an error in our request"),
        (500, InternalError, r"an error on the server \(HTTP 500\) has prevented the request from succeeding"),
        (503, ServiceUnavailable, "the server is currently unable to handle the request"),
        (504, Timeout, "the server was unable to return a response in the time allotted"),
    ],
)
async def test_a_code_alone_makes_a_typed_error(code, error, message):
    async with Misbehaving(answers(code, b"")) as server, an_api(server, limits=Limits(tries=1)) as api:
        with pytest.raises(error, match=f"^{message}") as caught:
            await get(api)
    assert type(caught.value) is error
    assert (caught.value.code, caught.value.status.code, caught.value.status.reason) == (code, code, error.reason)


@pytest.mark.parametrize(("write", "error"), [(_created, AlreadyExists), (_updated, Conflict)], ids=["POST", "PUT"])
async def test_a_conflict_without_a_status(write, error):
    async with Misbehaving(answers(409, b"")) as server, an_api(server) as api:
        with pytest.raises(error, match="the server reported a conflict"):
            await write(api)


async def test_quoted_bodies_are_short():
    async with Misbehaving(answers(404, b"x" * 100_000, content_type="text/html")) as server, an_api(server) as api:
        with pytest.raises(NotFound) as caught:
            await get(api)
    assert str(caught.value).count("x" * 200) == 1
    assert len(str(caught.value)) < 450


async def test_a_status_keeps_its_details():
    refusal = status(409, "Conflict", "changed", name="web-0", kind="pods", causes=[{"reason": "R", "field": "f"}])
    async with Misbehaving(answers(409, refusal)) as server, an_api(server) as api:
        with pytest.raises(ApiError) as caught:
            await get(api)
    details = caught.value.status.details
    assert (details.name, details.kind, details.causes[0].field) == ("web-0", "pods", "f")


# --- redirects, credentials, headers


async def test_credentials_do_not_follow_a_redirect():
    async with Misbehaving() as other:
        redirect = answers(307, b"", headers={"Location": f"{other.url}/api/v1/namespaces/default/pods/web-0"})
        credentials = UserCredentials(Tokens("t1"))
        async with Misbehaving(redirect) as server, an_api(server, credentials=credentials) as api:
            with pytest.raises(ApiError, match="redirects"):
                await get(api)
        assert other.connections == 0


class Tokens:
    """A token per request; the next one after each refusal."""

    def __init__(self, *tokens):
        self.tokens = list(tokens)

    async def authorization(self):
        return bearer(self.tokens[0])

    async def refused(self, used):
        if used == bearer(self.tokens[0]) and len(self.tokens) > 1:
            self.tokens.pop(0)
            return True
        return used != bearer(self.tokens[0])


REFUSED = answers(401, status(401, "Unauthorized", "who are you"))


async def test_a_fresh_token_is_tried_at_once():
    time = VirtualTime()
    credentials = UserCredentials(Tokens("t1", "t2"))
    async with Misbehaving(REFUSED, POD) as server, an_api(server, credentials=credentials, time=time) as api:
        await get(api)
        assert [seen.headers["authorization"] for seen in server.seen] == ["Bearer t1", "Bearer t2"]
    assert time.slept == []


@pytest.mark.parametrize(
    ("tokens", "requests"),
    [pytest.param(["t1"], 1, id="there is no other token"), pytest.param(["t1", "t2", "t3"], 2, id="refused as well")],
)
async def test_a_repeated_refusal_is_an_error(tokens, requests):
    credentials = UserCredentials(Tokens(*tokens))
    async with Misbehaving(REFUSED, REFUSED, POD) as server, an_api(server, credentials=credentials) as api:
        with pytest.raises(Unauthorized, match="who are you") as caught:
            await get(api)
        assert len(server.seen) == requests
    assert "t1" not in str(caught.value)


async def test_a_watch_gets_a_fresh_token_as_well():
    credentials = UserCredentials(Tokens("t1", "t2"))
    async with Misbehaving(REFUSED, streams()) as server, an_api(server, credentials=credentials) as api:
        assert [event async for event in api.watch(Pod, resource_version="1")] == []
        assert [seen.headers["authorization"] for seen in server.seen] == ["Bearer t1", "Bearer t2"]


@pytest.mark.parametrize(("disabled", "encoding"), [(False, "gzip"), (True, "identity")])
async def test_requests_have_a_user_agent(disabled, encoding):
    async with Misbehaving(POD) as server, an_api(server, disable_compression=disabled) as api:
        await get(api)
    headers = server.seen[0].headers
    assert headers["user-agent"] == AGENT
    assert headers["accept"] == "application/json"
    assert headers["accept-encoding"] == encoding
    assert "authorization" not in headers
    assert "content-type" not in headers


# --- proxies


SECRET_PROXY = "http://me:s3cret@127.0.0.1"


async def test_requests_go_through_the_proxy():
    async with Misbehaving(POD) as proxy:
        url = f"{SECRET_PROXY}:{proxy.port}"
        async with an_api("http://api.example:6443", proxy_url=url) as api:
            await get(api)
    (seen,) = proxy.seen
    assert seen.target == "http://api.example:6443/api/v1/namespaces/default/pods/web-0"
    assert seen.headers["proxy-authorization"].startswith("Basic ")


async def test_a_proxy_that_refuses_to_connect():
    proxy = Misbehaving(*[answers(407, b"")] * 4)
    await proxy.start()
    options = {"proxy_url": f"{SECRET_PROXY}:{proxy.port}", "tls": TlsSettings(insecure=True)}
    async with an_api("https://api.example:6443", **options) as api:
        with pytest.raises(Unreachable, match="the proxy refused to connect: 407") as caught:
            await api.create(LEASE)
    await proxy.stop()
    assert not isinstance(caught.value, OutcomeUnknown)
    assert "s3cret" not in str(caught.value)


async def test_a_proxy_that_is_down():
    async with Misbehaving() as proxy:
        url = f"{SECRET_PROXY}:{proxy.port}"
    async with an_api("http://api.example:6443", proxy_url=url) as api:
        with pytest.raises(Unreachable, match="the proxy cannot be reached: connection refused") as caught:
            await get(api)
    assert "s3cret" not in str(caught.value)


# --- TLS


CA = make_ca()
OTHER_CA = make_ca("other-ca")


@pytest.fixture
def server_context(tmp_path):
    def make(*names):
        pair = make_server_certificate(CA, list(names))
        (tmp_path / "tls.crt").write_bytes(pair.certificate)
        (tmp_path / "tls.key").write_bytes(pair.key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
        return context

    return make


def tls(ca=CA, **options):
    return TlsSettings(ca=InlineContent(ca.certificate, where="ca"), **options)


@pytest.mark.parametrize(
    ("names", "settings", "message"),
    [
        pytest.param(["127.0.0.1"], tls(OTHER_CA), "certificate is not trusted: .*certificate-authority", id="CA"),
        pytest.param(["10.0.0.1"], tls(), "certificate has another name: .*tls-server-name", id="address"),
    ],
)
async def test_certificates_that_do_not_fit(server_context, names, settings, message):
    time = VirtualTime()
    async with (
        Misbehaving(POD, context=server_context(*names)) as server,
        an_api(server, tls=settings, time=time) as api,
    ):
        with pytest.raises(Unreachable, match=message):
            await get(api)
        assert server.seen == []
    assert time.slept == []


async def test_tls_to_a_plain_http_server():
    server = Misbehaving(greeting=b"HTTP/1.1 400 Bad Request\r\n\r\n")
    await server.start()
    async with an_api(server.url.replace("http:", "https:"), tls=tls()) as api:
        with pytest.raises(Unreachable, match=r"no TLS connection.*plain http"):
            await get(api)
    await server.stop()


async def piped(source, sink):
    try:
        while data := await source.read(1 << 16):
            sink.write(data)
    finally:
        sink.close()


def tunnels(port):
    """Answers CONNECT like a proxy, whatever the target."""

    async def act(exchange):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        await exchange.send(b"HTTP/1.1 200 OK\r\n\r\n")
        ways = (piped(exchange.reader, writer), piped(reader, exchange.writer))
        await asyncio.gather(*ways, return_exceptions=True)
        with suppress(OSError):
            await writer.wait_closed()
        exchange.keep = False

    return act


@pytest.mark.parametrize(
    ("host", "settings"),
    [
        pytest.param("api.example", tls(), id="by its name"),
        pytest.param("10.0.0.1", tls(server_name="api.example"), id="under another name"),
    ],
)
async def test_tls_through_a_proxy(server_context, host, settings):
    credentials = UserCredentials(Tokens("t1"))
    async with Misbehaving(POD, POD, streams(), context=server_context("api.example")) as server:
        proxy = Misbehaving(tunnels(server.port))
        await proxy.start()
        url = f"{SECRET_PROXY}:{proxy.port}"
        async with an_api(f"https://{host}:6443", proxy_url=url, tls=settings, credentials=credentials) as api:
            await get(api)
            await get(api)
            assert [event async for event in api.watch(Pod, resource_version="1")] == []
        await proxy.stop()
    (seen,) = proxy.seen
    assert (seen.method, seen.target) == ("CONNECT", f"{host}:6443")
    assert seen.headers["proxy-authorization"].startswith("Basic ")
    assert "authorization" not in seen.headers
    assert [inside.headers["authorization"] for inside in server.seen] == ["Bearer t1"] * 3
    assert all("proxy-authorization" not in inside.headers for inside in server.seen)


async def test_an_untrusted_server_behind_a_proxy_is_refused(server_context):
    async with Misbehaving(context=server_context("elsewhere")) as server:
        proxy = Misbehaving(tunnels(server.port))
        await proxy.start()
        url = f"{SECRET_PROXY}:{proxy.port}"
        async with an_api("https://api.example", proxy_url=url, tls=tls()) as api:
            with pytest.raises(Unreachable, match="certificate has another name"):
                await get(api)
        await proxy.stop()
    assert server.seen == []


async def test_a_new_certificate_gets_a_new_connection(server_context):
    settings = tls()
    async with (
        Misbehaving(POD, POD, POD, context=server_context("127.0.0.1")) as server,
        an_api(server, tls=settings) as api,
    ):
        await get(api)
        await get(api)
        assert server.connections == 1
        settings._context = None
        await get(api)
        assert server.connections == 2


async def test_half_open_connections_are_probed(monkeypatch):
    """So that a stream, too, notices within two minutes that the peer has vanished."""
    made = []

    class Noted(socket.socket):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            made.append(self)

    async with Misbehaving(POD) as server, an_api(server) as api:
        monkeypatch.setattr(socket, "socket", Noted)
        await get(api)
        monkeypatch.undo()
        (connection,) = [one for one in made if one.getpeername()[1] == server.port]
        assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        idle, between, probes = (
            connection.getsockopt(socket.IPPROTO_TCP, option)
            for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        )
        assert idle + between * probes <= 120


async def test_cookies_are_not_kept():
    """They would reveal one backend of a load balancer to others, and a login page's session to an API."""
    answer = answers(200, a_pod(), headers={"Set-Cookie": "a=b"})
    server = Misbehaving(answer, POD)
    await server.start()
    # For a plain IP address, aiohttp would not keep any.
    async with an_api(f"http://localhost:{server.port}") as api:
        await get(api)
        await get(api)
    await server.stop()
    assert ["cookie" in seen.headers for seen in server.seen] == [False, False]
