"""Abusive and malformed requests over TLS to a server in its own process, which must refuse them and go on.

After each test the server still answers, has logged nothing, and holds no more connections, watches or requests than
before.
"""

import json
import re
import socket
import ssl
import string
from contextlib import ExitStack, suppress
from pathlib import Path
from random import Random
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.http.raw_sockets import Target, answer_of, received, refused, until
from support.processes.servers import embedded_server

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
LIMIT = 3 * 1024 * 1024
MB = 1024 * 1024
#: Only the response to this request has it: seeing it means that a smuggled request was answered.
HIDDEN, SEEN = b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n", b"gitVersion"

long_running = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    if not Path("/proc/self/fd").is_dir():
        pytest.skip("counts what the server holds in /proc")
    with embedded_server(tmp_path_factory.mktemp("abused"), "--controllers=") as server:
        yield Target(server)


@pytest.fixture(autouse=True)
def check_unharmed(target):
    held, log = target.held(), target.log.read_text()
    yield
    assert target.ask("GET", "/livez")[:2] == (200, b"ok")
    until(lambda: all(now <= before for now, before in zip(target.held(), held, strict=True)))
    assert target.log.read_text() == log


def test_it_listens_only_on_127_0_0_1(target):
    mine = {re.search(r"\d+", link)[0] for link in target.sockets()}
    listening = []
    for table in ("tcp", "tcp6"):
        for line in (target.process / "net" / table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in mine:
                listening.append((table, fields[1]))
    assert listening == [("tcp", f"0100007F:{target.port:04X}")]


# Who are you?


@pytest.mark.parametrize(
    "authorization",
    [
        pytest.param(None, id="none"),
        pytest.param("", id="empty"),
        pytest.param("Bearer", id="no token"),
        pytest.param("Bearer wrong", id="wrong token"),
        pytest.param("Bearer wr\xf6ng", id="not ASCII"),
        pytest.param("Bearer " + "x" * 60_000, id="long token"),
        pytest.param("Basic YTpi", id="basic"),
        pytest.param("Negotiate", id="negotiate"),
    ],
)
def test_unauthenticated_requests_are_refused(target, authorization):
    headers = {} if authorization is None else {"Authorization": authorization}
    with target.client() as connection:
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
            for path in ("/api", "/metrics", "/openapi/v2", "/nothing", CONFIGMAPS, f"{CONFIGMAPS}/x"):
                status, body, response = answer_of(connection, method, path, b"{}", headers)
                assert refused(status, body)["reason"] == "Unauthorized"
                assert (status, response.headers["WWW-Authenticate"]) == (401, "Bearer")


# Bodies


@pytest.mark.parametrize("chunked", [False, True], ids=["long", "chunked"])
def test_a_body_of_100_mb(target, chunked):
    size, before = 100 * MB, target.resident()
    block = b"x" * 65536
    framing = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {size}"
    with target.raw() as sock:
        sock.sendall(target.head("POST", CONFIGMAPS, "Content-Type: application/json", framing))
        with suppress(OSError):
            for _ in range(size // len(block)):
                sock.sendall(b"10000\r\n%b\r\n" % block if chunked else block)
        status, _, body = received(sock).partition(b"\r\n\r\n")
    # A client that keeps sending may find the connection closed before it reads the response.
    if status:
        assert refused(413, body)["reason"] == "RequestEntityTooLarge"
    assert target.resident() - before < 32 * MB


def test_an_object_with_a_million_labels(target):
    labels = {f"a{n}": "" for n in range(1_000_000)}
    body = json.dumps({"metadata": {"name": "million", "labels": labels}}).encode()
    with target.client() as connection, suppress(ConnectionError):
        status, body, _ = answer_of(connection, "POST", CONFIGMAPS, body, target.headers())
        assert refused(status, body)["reason"] == "RequestEntityTooLarge"
    assert target.ask("GET", f"{CONFIGMAPS}/million")[0] == 404


def test_bad_labels_by_the_thousands(target):
    labels = {f"a {n}": "" for n in range(100_000)}
    body = json.dumps({"metadata": {"name": "bad", "labels": labels}}).encode()
    assert len(body) < LIMIT
    status, body, _ = target.ask("POST", CONFIGMAPS, body)
    assert refused(status, body)["reason"] == "Invalid"


@pytest.mark.parametrize(
    ("method", "path", "content_type", "body", "status"),
    [
        pytest.param("POST", CONFIGMAPS, "application/json", b"{", 400, id="unterminated JSON"),
        pytest.param("POST", CONFIGMAPS, "application/json", b"", 400, id="empty"),
        pytest.param("POST", CONFIGMAPS, "application/json", b"\xff\xfe\x00", 400, id="no text"),
        pytest.param("POST", CONFIGMAPS, "application/json", b'{"data":{"a":"\xff"}}', 400, id="no UTF-8"),
        pytest.param("POST", CONFIGMAPS, "application/json", b"NaN", 400, id="NaN"),
        pytest.param("POST", CONFIGMAPS, "application/json", b"[" * MB, 400, id="nested"),
        pytest.param("POST", CONFIGMAPS, "application/json", b'{"data":' * 100_000 + b"1", 400, id="deep"),
        pytest.param("POST", CONFIGMAPS, "application/json", b'{"metadata":{"name":9e999}}', 400, id="infinite name"),
        pytest.param("POST", CONFIGMAPS, "application/yaml", b"a: &a [*a]", 400, id="recursive YAML"),
        pytest.param("POST", CONFIGMAPS, "application/yaml", b"!!python/object/apply:os.getpid []", 400, id="YAML tag"),
        pytest.param("POST", CONFIGMAPS, "text/html", b"{}", 415, id="HTML"),
        pytest.param("POST", CONFIGMAPS, "application/x-www-form-urlencoded", b"a=b", 415, id="form"),
        pytest.param("PATCH", f"{CONFIGMAPS}/x", "application/json", b"{}", 415, id="unknown patch"),
        pytest.param("PATCH", f"{CONFIGMAPS}/x", "application/patch", b"{}", 415, id="patch without media type"),
        pytest.param("PATCH", f"{CONFIGMAPS}/x", "application/merge-patch+json", b"{", 400, id="merge patch, broken"),
        pytest.param("PATCH", f"{CONFIGMAPS}/x", "application/json-patch+json", b"[{", 400, id="JSON patch, broken"),
        pytest.param("PATCH", f"{CONFIGMAPS}/x", "application/merge-patch+json", b"{}", 404, id="patch of nothing"),
        pytest.param("DELETE", f"{CONFIGMAPS}/x", "application/json", b"[]", 400, id="invalid options"),
        pytest.param("PUT", CONFIGMAPS, "application/json", b"{}", 405, id="PUT of all"),
        pytest.param("TRACE", CONFIGMAPS, "application/json", b"", 405, id="TRACE"),
    ],
)
def test_malformed_bodies_are_refused(target, method, path, content_type, body, status):
    answer = target.ask(method, path, body, Content_Type=content_type)
    assert answer[0] == status
    refused(*answer[:2])


@pytest.mark.parametrize(
    "path",
    [
        *("/../etc/passwd", "/..", "/%2e%2e/%2e%2e/etc/passwd", "/api/../../etc/passwd", "/..%2f..%2fetc%2fpasswd"),
        *(f"{CONFIGMAPS}/{name}" for name in ("..", "../secrets", "%2e%2e/secrets", "..%2fx", "a%", "%ff", "a;b/c/d")),
        *(f"{CONFIGMAPS}/%00", f"{CONFIGMAPS}/%0d%0aX:y"),
        *("/api/v1/namespaces/../nodes", "/api/v1/namespaces/%2e/configmaps", "/api/v1/namespaces//configmaps"),
        *("/openapi/v3/../../x", "/apis/../api/v1/nodes", "/" + "a/" * 30_000, "/api/v1/" + "%2e" * 10_000),
        f"{CONFIGMAPS}?limit=-9999999999999999999999&continue=%00",
        f"{CONFIGMAPS}?" + "&".join(f"a{n}=b" for n in range(5000)),
        f"{CONFIGMAPS}?labelSelector=" + quote("a in (" * 1000),
        f"{CONFIGMAPS}?resourceVersion=99999999999999999999",
        f"{CONFIGMAPS}?watch=1&timeoutSeconds=1e9",
    ],
    ids=lambda path: path[:60],
)
def test_malformed_paths_are_refused(target, path):
    refused(*target.ask("GET", path)[:2])


# Malformed HTTP


def hides(*lines, body=b"", method="POST"):
    """A request whose end can be parsed in two ways, with a second request behind it or inside."""
    return lambda target: target.head(method, CONFIGMAPS, *lines) + body + HIDDEN


SMUGGLED = {
    "length and chunks": hides("Content-Length: 5", "Transfer-Encoding: chunked", body=b"0\r\n\r\n"),
    "chunks and length": hides("Transfer-Encoding: chunked", "Content-Length: 5", body=b"0\r\n\r\n"),
    "two lengths": hides("Content-Length: 2", "Content-Length: 40", body=b"{}"),
    "lengths in a list": hides("Content-Length: 2, 40", body=b"{}"),
    "length with a sign": hides("Content-Length: +2", body=b"{}"),
    "negative length": hides("Content-Length: -1"),
    "length in hex": hides("Content-Length: 0x2", body=b"{}"),
    "huge length": hides("Content-Length: 99999999999999999999999", body=b"{}"),
    "empty length": hides("Content-Length: "),
    "unknown coding": hides("Transfer-Encoding: xchunked", body=b"0\r\n\r\n"),
    "chunked twice": hides("Transfer-Encoding: chunked, chunked", body=b"0\r\n\r\n"),
    "chunked first": hides("Transfer-Encoding: chunked, identity", body=b"0\r\n\r\n"),
    "two codings": hides("Transfer-Encoding: chunked", "Transfer-Encoding: identity", body=b"0\r\n\r\n"),
    "space before the colon": hides("Transfer-Encoding : chunked", body=b"0\r\n\r\n"),
    "folded": hides("Transfer-Encoding:\r\n chunked", "Content-Length: 5", body=b"0\r\n\r\n"),
    "vertical tab": hides("Transfer-Encoding:\x0bchunked", body=b"0\r\n\r\n"),
    "a lone CR": hides("X: a\rContent-Length: 5", body=b"0\r\n\r\n"),
    "NUL in a header": hides("X: a\x00Content-Length: 5"),
    "chunk without a size": hides("Transfer-Encoding: chunked", body=b"\r\n"),
    "chunk of a negative size": hides("Transfer-Encoding: chunked", body=b"-1\r\n"),
    "chunk of a size in words": hides("Transfer-Encoding: chunked", body=b"zz\r\n"),
    "chunk of a huge size": hides("Transfer-Encoding: chunked", body=b"f" * 30 + b"\r\n"),
    "chunk longer than it says": hides("Transfer-Encoding: chunked", body=b"1\r\nabc\r\n0\r\n\r\n"),
    "chunk with a bare LF": hides("Transfer-Encoding: chunked", body=b"2\n{}\n0\n\n"),
    "chunk size with a prefix": hides("Transfer-Encoding: chunked", body=b"0x2\r\n{}\r\n0\r\n\r\n"),
    "inside a body": lambda target: target.head("POST", CONFIGMAPS, f"Content-Length: {len(HIDDEN)}") + HIDDEN,
    "inside the body of a GET": lambda target: target.head("GET", "/api", f"Content-Length: {len(HIDDEN)}") + HIDDEN,
}


@pytest.mark.parametrize("name", SMUGGLED)
def test_a_request_hidden_in_another_is_not_answered(target, name):
    with target.raw() as sock:
        sock.sendall(SMUGGLED[name](target))
        # Complete requests keep their connection alive: this one closes it.
        sock.sendall(b"garbage\r\n\r\n")
        told = received(sock)
    assert SEEN not in told
    assert told.startswith(b"HTTP/1."), told


MALFORMED = {
    "nothing but noise": b"\x00\x01\x02\x03\xff\xfe\r\n\r\n",
    "NULs": b"\x00" * 1000 + b"\r\n\r\n",
    "HTTP/9.9": b"GET /livez HTTP/9.9\r\n\r\n",
    "HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
    "lower case": b"get /livez http/1.1\r\n\r\n",
    "no target": b"GET  HTTP/1.1\r\n\r\n",
    "spaces in the target": b"GET /a b c HTTP/1.1\r\nHost: x\r\n\r\n",
    "target with a NUL": b"GET /\x00 HTTP/1.1\r\nHost: x\r\n\r\n",
    "tab for a space": b"GET\t/livez\tHTTP/1.1\r\n\r\n",
    "unknown method": b"FETCH /livez HTTP/1.1\r\nHost: x\r\n\r\n",
    "endless method": b"A" * 200_000,
    "endless target": b"GET /" + b"a" * 200_000,
    "endless header": b"GET / HTTP/1.1\r\nX: " + b"a" * 200_000,
    "endless headers": b"GET / HTTP/1.1\r\n" + b"".join(b"X%d: y\r\n" % n for n in range(5000)),
    "header without a name": b"GET / HTTP/1.1\r\n: x\r\n\r\n",
    "header without a colon": b"GET / HTTP/1.1\r\nHost\r\n\r\n",
    "header with a space": b"GET / HTTP/1.1\r\nA B: c\r\n\r\n",
    "SSH": b"SSH-2.0-OpenSSH_9.0\r\n",
    "an answer": b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_requests_close_the_connection(target, name):
    with target.raw() as sock:
        with suppress(ConnectionError):
            sock.sendall(MALFORMED[name])
        head, _, body = received(sock).partition(b"\r\n\r\n")
    refused(int(head.split()[1]), body)


def test_http_0_9_gets_one_response(target):
    with target.raw() as sock:
        sock.sendall(b"GET /livez\r\n\r\n")
        told = received(sock)
    assert told.endswith(b"\r\n\r\nok")
    assert told.count(b"HTTP/") == 1


@pytest.mark.parametrize(
    ("method", "request_target", "status"),
    [
        *(("GET", "*", 400), ("OPTIONS", "*", 400), ("GET", "http://x/api", 400), ("GET", "https://x@y:z/api", 400)),
        *(("GET", "//x/api", 404), ("GET", "x:443", 400), ("GET", "?", 400)),
        *(("CONNECT", "x:443", 400), ("CONNECT", "/api", 405), ("CONNECT", "[::1]:443", 400)),
    ],
)
def test_other_forms_of_targets(target, method, request_target, status):
    with target.raw() as sock:
        sock.sendall(target.head(method, request_target, "Connection: close"))
        head, _, body = received(sock).partition(b"\r\n\r\n")
    assert int(head.split()[1]) == status
    refused(status, body)


@pytest.mark.parametrize(
    "lines",
    [
        ("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAA"),
        ("Upgrade: h2c", "Connection: Upgrade, HTTP2-Settings", "HTTP2-Settings: AAMAAABkAAQAAP__"),
        ("Upgrade: SPDY/3.1", "Connection: Upgrade"),
        ("Upgrade: TLS/1.0", "Connection: Upgrade"),
    ],
    ids=lambda lines: lines[0],
)
@pytest.mark.parametrize("path", [CONFIGMAPS, "/api/v1/namespaces/default/pods/p/exec?command=sh"])
def test_protocol_upgrades_are_ignored(target, lines, path):
    with target.raw() as sock:
        sock.sendall(target.head("GET", path, *lines))
        sock.sendall(b"\x81\x85abcdefghi" * 20_000)
        told = received(sock)
    assert not told.startswith(b"HTTP/1.1 101")
    assert told.startswith(b"HTTP/1.1 ")


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n", id="HTTP without TLS"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\xaa" * 600, id="a broken hello"),
        pytest.param(b"\x16\x03\x01\xff\xff" + b"\x00" * 70_000, id="a hello that is too long"),
        pytest.param(b"\x80\x2e\x01\x00\x02" + b"\x00" * 60, id="SSLv2"),
        pytest.param(Random(1).randbytes(5000), id="random bytes"),
        pytest.param(b"\x15\x03\x03\x00\x02\x02\x28", id="an alert"),
        pytest.param(b"", id="empty"),
        pytest.param(b"\x16\x03", id="the beginning of a hello"),
    ],
)
def test_malformed_tls(target, sent):
    with target.plain() as sock:
        with suppress(ConnectionError):
            sock.sendall(sent)
            sock.shutdown(socket.SHUT_WR)
        assert b"HTTP/1.1 200" not in received(sock)


# Slow clients, and clients that do not read


def test_heads_and_bodies_that_never_end(target):
    with ExitStack() as stack:
        for number in range(60):
            sock = stack.enter_context(target.raw())
            whole = target.head("POST", CONFIGMAPS, "Content-Length: 1000") + b'{"metadata":'
            sock.sendall(whole if number % 2 else whole[: 20 + number])
        assert target.ask("GET", CONFIGMAPS)[0] == 200
        until(lambda: target.metric("apiserver_current_inflight_requests") == 30)


def test_clients_that_disconnect_mid_request(target):
    whole = target.head("POST", CONFIGMAPS, "Content-Length: 4") + b"{}{}"
    for end in range(1, len(whole), 7):
        with target.raw() as sock:
            sock.sendall(whole[:end])
            if end % 2:
                # Half-closed: the client sends nothing more, but still reads.
                sock.shutdown(socket.SHUT_WR)


def test_a_thousand_pipelined_requests(target):
    count = 1000
    with target.raw() as sock:
        sock.sendall(
            target.head("GET", CONFIGMAPS + "/nothing") * count + target.head("GET", "/api", "Connection: close")
        )
        told = received(sock)
    assert (told.count(b"HTTP/1.1 404"), told.count(b"HTTP/1.1 200")) == (count, 1)


def test_unread_responses(target):
    """They stay in the client's socket buffer, not in the server."""
    before = target.resident()
    with ExitStack() as stack:
        for _ in range(10):
            sock = stack.enter_context(target.raw())
            sock.settimeout(0.2)
            with suppress(TimeoutError, ssl.SSLError):
                for _ in range(2000):
                    sock.sendall(target.head("GET", "/openapi/v3/api/v1") * 20)
        assert target.resident() - before < 64 * MB


def test_unread_lists(target):
    """Each is available completely, but no list is buffered completely."""
    secrets, size, readers = "/api/v1/namespaces/default/secrets", 600_000, 30
    with target.client() as connection:
        for number in range(30):
            secret = {"metadata": {"name": f"large-{number}"}, "stringData": {"a": "x" * size}}
            body = json.dumps(secret).encode()
            assert answer_of(connection, "POST", secrets, body, target.headers())[0] == 201
    before = target.resident()
    with ExitStack() as stack:
        for _ in range(readers):
            sock = stack.enter_context(target.raw())
            sock.sendall(target.head("GET", secrets))
            assert sock.recv(9) == b"HTTP/1.1 "
        assert target.resident() - before < 150 * MB
    status, told, _ = target.ask("GET", secrets)
    assert (status, len(json.loads(told)["items"])) == (200, 30)
    assert len(told) * readers > 500 * MB
    assert target.ask("DELETE", secrets)[0] == 200


def test_unread_watches(target):
    """Whatever happens, each buffers a bounded amount, and the watch cache keeps its size."""
    target.ask("POST", CONFIGMAPS, b'{"metadata":{"name":"noise"}}')
    before = target.resident()
    size, changes, watchers = 20_000, 4000, 30
    with ExitStack() as stack:
        for _ in range(watchers):
            sock = stack.enter_context(target.raw())
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.sendall(target.head("GET", f"{CONFIGMAPS}?watch=1"))
        until(lambda: target.metric("apiserver_longrunning_requests") == watchers)
        headers = target.headers(Content_Type="application/merge-patch+json")
        connection = stack.enter_context(target.client())
        for number in range(changes):
            patch = json.dumps({"data": {"a": f"{number:06d}" + "x" * size}}).encode()
            assert answer_of(connection, "PATCH", f"{CONFIGMAPS}/noise", patch, headers)[0] == 200
        # Buffered per watch, it would be this amount times the number of watchers.
        assert size * changes > 72 * MB
        assert target.resident() - before < 200 * MB


def test_watches_come_and_go(target):
    for number in range(100):
        with target.raw() as sock:
            sock.sendall(target.head("GET", f"{CONFIGMAPS}?watch=1&allowWatchBookmarks=true"))
            if number % 2:
                sock.recv(100)


# Random requests


def one_of(words, *others):
    return st.sampled_from([*words.split(), *others])


SEGMENTS = st.one_of(
    one_of("api apis v1 apps namespaces default pods nodes configmaps deployments metrics openapi", ""),
    one_of("status scale binding eviction log watch .. . %2e%2e %2f %00 %"),
    one_of("apiextensions.k8s.io customresourcedefinitions authorization.k8s.io selfsubjectaccessreviews"),
    st.text(alphabet=string.printable.strip() + "äß", max_size=8).map(lambda text: quote(text, safe="%;:@+")),
)
PATHS = st.one_of(
    st.lists(SEGMENTS, max_size=8).map(lambda segments: "/" + "/".join(segments)),
    st.sampled_from([CONFIGMAPS, f"{CONFIGMAPS}/x", "/api/v1/nodes", "/api/v1/namespaces/default/pods/p/binding"]),
)
PARAMETERS = """
    watch limit continue resourceVersion resourceVersionMatch labelSelector fieldSelector dryRun fieldManager
    fieldValidation force timeoutSeconds export gracePeriodSeconds propagationPolicy orphanDependents
    sendInitialEvents includeObject pretty
"""
ARGUMENTS = one_of("0 1 -1 true All Exact NotOlderThan a=b metadata.name=x", "", "9" * 30) | st.text(max_size=10)
QUERIES = st.lists(st.tuples(one_of(PARAMETERS), ARGUMENTS), max_size=4).map(
    lambda pairs: "&".join(f"{name}={quote(value)}" for name, value in pairs)
)
HEADER_NAMES = """
    Accept Content-Type User-Agent Accept-Encoding Content-Encoding Expect If-None-Match X-Forwarded-For
    Impersonate-User Impersonate-Group Impersonate-Uid Impersonate-Extra-%zz
"""
HEADER_VALUES = """
    application/json application/yaml application/vnd.kubernetes.protobuf */* gzip text/csv 100-continue
    application/apply-patch+yaml application/merge-patch+json application/json-patch+json
    application/strategic-merge-patch+json application/json;as=Table;v=v1;g=meta.k8s.io
    application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io system:anonymous
"""
LATIN = st.text(alphabet=[chr(n) for n in range(32, 256) if n != 127], max_size=20)
HEADERS = st.dictionaries(one_of(HEADER_NAMES), one_of(HEADER_VALUES) | LATIN.map(str.strip), max_size=4)
NAMES = one_of("metadata spec status name labels annotations kind apiVersion target op path value")
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8) | NAMES, inner, max_size=4),
    max_leaves=12,
)
BODIES = st.one_of(
    st.none(),
    st.binary(max_size=60),
    VALUES.map(lambda value: json.dumps(value).encode()),
    st.dictionaries(NAMES, VALUES, max_size=6).map(lambda value: json.dumps(value).encode()),
)
METHODS = one_of("GET HEAD POST PUT PATCH DELETE OPTIONS TRACE")


@long_running
@given(method=METHODS, path=PATHS, query=QUERIES, headers=HEADERS, body=BODIES)
def test_any_request_gets_an_answer(target, method, path, query, headers, body):
    sent = target.headers() | {name: value.encode("latin-1") for name, value in headers.items()}
    with target.client() as connection:
        status, told, _ = answer_of(connection, method, f"{path}?{query}", body, sent)
    assert status < 500
    if status >= 400 and method != "HEAD" and told.startswith(b"{"):
        refused(status, told)


def corrupted(chance, whole):
    """A request that may have an error somewhere."""
    data = bytearray(whole)
    for _ in range(chance.randrange(6)):
        place = chance.randrange(len(data))
        match chance.randrange(5):
            case 0:
                data[place] = chance.randrange(256)
            case 1:
                del data[place : place + chance.randrange(10)]
            case 2:
                data[place:place] = chance.randbytes(chance.randrange(20))
            case 3:
                data[place:place] = data[place : place + chance.randrange(40)]
            case 4:
                data[place:place] = chance.choice([b"\r\n", b"\n", b"\r", b":", b" ", b"\x00", b"0\r\n\r\n", HIDDEN])
    return bytes(data)


@pytest.mark.parametrize("seed", range(4))
def test_corrupted_requests_do_no_harm(target, seed):
    chance = Random(seed)
    wholes = [
        target.head("POST", CONFIGMAPS, "Content-Type: application/json", "Content-Length: 4") + b"{}{}",
        target.head("POST", CONFIGMAPS, "Transfer-Encoding: chunked") + b"2\r\n{}\r\n0\r\n\r\n",
        target.head("GET", f"{CONFIGMAPS}?watch=1&timeoutSeconds=1") + target.head("DELETE", f"{CONFIGMAPS}/x"),
    ]
    for number in range(100):
        with target.raw() as sock:
            sock.sendall(corrupted(chance, wholes[number % len(wholes)]))
            if chance.randrange(2):
                sock.settimeout(0.01)
                with suppress(TimeoutError, ConnectionError):
                    sock.recv(1000)
