"""Requests as they are written, and responses as they are read, byte by byte."""

import gzip
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict
from yarl import URL

from stowplan.net.client.http.http1 import AnswerReader, ConnectionLost, NotHttp, RequestWriter
from support.examples import examples
from support.http.http_answers import COMPLETE, CUT_OFF, GZIP, OK, UNTIL_THE_END, WRONG, ZIPPED

# --- requests

FIELDS = {"User-Agent": "a/1", "Accept": "application/json"}
SHARED = "User-Agent: a/1\r\nAccept: application/json\r\n"


def written(server="http://h", *, credentials=(), path="/p", **more):
    options = {"method": "GET", "query": {}, "body": None, "content_type": "application/json", **more}
    writer = RequestWriter(URL(server), FIELDS)
    return writer.request(options.pop("method"), path, credentials=CIMultiDict(credentials), **options).decode()


@pytest.mark.parametrize(
    ("server", "host", "base"),
    [
        pytest.param("http://h", "h", "", id="name"),
        pytest.param("http://h:80", "h", "", id="the scheme's own port"),
        pytest.param("https://h:6443", "h:6443", "", id="port"),
        pytest.param("https://[::1]:6443", "[::1]:6443", "", id="IPv6"),
        pytest.param("https://bücher.example", "xn--bcher-kva.example", "", id="IDNA"),
        pytest.param("https://h.example.:6443", "h.example:6443", "", id="dot at the end"),
        pytest.param("https://h/k8s/clusters/c-1", "h", "/k8s/clusters/c-1", id="path"),
        pytest.param("https://h/ä", "h", "/%C3%A4", id="path that needs quoting"),
    ],
)
def test_request_lines_and_hosts(server, host, base):
    assert written(server) == f"GET {base}/p HTTP/1.1\r\nHost: {host}\r\n{SHARED}\r\n"


def test_a_request_with_everything():
    text = written(
        method="PATCH",
        query={"a": "b,c in (d,é)", "continue": "x+/="},
        credentials=[("Impersonate-Group", "a"), ("Impersonate-Group", "bücher"), ("Authorization", "Bearer t")],
        body=b"[]",
        content_type="application/json-patch+json",
    )
    assert text == (
        "PATCH /p?a=b%2Cc%20in%20%28d%2C%C3%A9%29&continue=x%2B%2F%3D HTTP/1.1\r\n"
        f"Host: h\r\n{SHARED}"
        "Impersonate-Group: a\r\nImpersonate-Group: bücher\r\nAuthorization: Bearer t\r\n"
        "Content-Type: application/json-patch+json\r\nContent-Length: 2\r\n\r\n[]"
    )


def test_new_credentials_are_used():
    writer = RequestWriter(URL("http://h"), FIELDS)
    for token in ("a", "b", "b", "a"):
        credentials = CIMultiDict({"Authorization": token})
        text = writer.request("GET", "/", query={}, credentials=credentials, body=None, content_type="")
        assert f"Authorization: {token}\r\n".encode() in text
        assert text.count(b"Authorization") == 1


@pytest.mark.parametrize("value", ["s3cret\r\nX: y", "s3cret\nx", "s3cret\0"])
def test_header_injection_is_refused(value):
    with pytest.raises(ValueError, match="'Authorization': there is a line end in it") as caught:
        written(credentials=[("Authorization", value)])
    assert "s3cret" not in str(caught.value)


# -- reading responses


def read(data, *, then="more", to_head=False, cuts=()):
    """The result of reading these bytes: code, headers, body, and whether the connection is kept; or the error.

    After the last byte the connection stays open or ends.
    """
    reader = AnswerReader(to_head=to_head)
    edges = [0, *sorted(cuts), len(data)]
    try:
        for start, end in pairwise(edges):
            answer = reader.feed(data[start:end]) if end > start else None
            if answer is not None:
                surplus = len(data) > end
                return answer.code, answer.headers, answer.body, reader.keep and not surplus
        if then == "more":
            return "incomplete"
        answer = reader.end()
    except NotHttp as error:
        return f"NotHttp: {error}"
    except ConnectionLost:
        return "ConnectionLost"
    return answer.code, answer.headers, answer.body, False


def outcome(data, **options):
    """The same without headers."""
    result = read(data, **options)
    return result if isinstance(result, str) else (result[0], *result[2:])


def table(rows):
    return pytest.mark.parametrize(("data", "expected"), [pytest.param(*row, id=name) for name, row in rows.items()])


@table(COMPLETE)
def test_responses_with_a_length(data, expected):
    assert outcome(data) == expected
    assert outcome(data[:-1]) == "incomplete" or expected[1] == b""
    assert outcome(data + b"H") == (*expected[:2], False)


@table(UNTIL_THE_END)
def test_responses_that_end_with_the_connection(data, expected):
    assert outcome(data) == "incomplete"
    assert outcome(data, then="end") == expected


@table(WRONG)
def test_invalid_responses(data, expected):
    reader = AnswerReader()
    with pytest.raises(NotHttp, match=expected) as caught:
        reader.feed(data)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("data", [pytest.param(data, id=name) for name, data in CUT_OFF.items()])
def test_truncated_responses(data):
    assert outcome(data) == "incomplete"
    assert outcome(data, then="end") == "ConnectionLost"


def test_a_truncated_gzip_body():
    assert outcome(GZIP + b"\r\n" + ZIPPED[:-1], then="end") == "NotHttp: its body is not one whole gzip file"


@pytest.mark.parametrize("framing", [b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n", b""])
def test_head_gets_no_body(framing):
    assert outcome(OK + framing + b"\r\n", to_head=True) == (200, b"", True)


def test_headers():
    data = OK + b"Content-Type: application/json\r\nX-A: b\r\nx-a:\tc \r\nEmpty:\r\nContent-Length: 0\r\n\r\n"
    assert read(data)[1] == {
        "content-type": "application/json",
        "x-a": "b, c",
        "empty": "",
        "content-length": "0",
    }


def test_headers_of_informational_responses_are_ignored():
    data = b"HTTP/1.1 103 E\r\nRetry-After: 9\r\n\r\n" + OK + b"Content-Length: 0\r\n\r\n"
    assert read(data)[1] == {"content-length": "0"}


@pytest.mark.parametrize("begun", [b"", b"H", b"HTTP/1.1 100 Continue\r\n\r\n", OK + b"Content-Length: 3\r\n\r\n"])
def test_whether_a_response_has_started(begun):
    reader = AnswerReader()
    reader.feed(begun)
    assert reader.begun == bool(begun)


# -- responses in pieces

BODIES = st.binary(max_size=40) | st.sampled_from([b"\r\n0\r\n\r\n", OK, b"\r\n\r\n", b"0\r\n"])
NAMES = st.sampled_from(["X-A", "x-b", "Date", "Audit-Id", "!#$%&'*+-.^_`|~09AZaz"])
VALUES = st.text(st.characters(codec="latin-1", exclude_categories=["Cc"]), max_size=9)


@st.composite
def framed(draw, body):
    """Headers and bytes that encode this body, in one of the possible ways."""
    way = draw(st.sampled_from(["length", "chunks", "end"]))
    if way == "end":
        return [], body, way
    if way == "length":
        return [f"Content-Length: {len(body)}"], body, way
    cuts = sorted(draw(st.sets(st.integers(1, max(1, len(body) - 1)), max_size=4)))
    pieces = [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]
    extension = draw(st.sampled_from([b"", b";a", b' ; a="b"']))
    chunks = b"".join(b"%x%b\r\n%b\r\n" % (len(piece), extension, piece) for piece in pieces if piece)
    trailer = draw(st.sampled_from([b"", b"A: b\r\n", b"A: b\r\nC:\r\n"]))
    return ["Transfer-Encoding: chunked"], b"%b0\r\n%b\r\n" % (chunks, trailer), way


@st.composite
def conversations(draw):
    """The bytes of a response, and the expected result."""
    body = draw(BODIES)
    zipped = draw(st.booleans())
    framing, sent, way = draw(framed(gzip.compress(body, mtime=0) if zipped else body))
    headers = draw(st.lists(st.tuples(NAMES, VALUES), max_size=4))
    code = draw(st.sampled_from([200, 201, 404, 500]))
    lines = [f"HTTP/1.1 {code} {draw(VALUES)}", *(f"{name}: {value}" for name, value in headers), *framing]
    if zipped:
        lines.append("Content-Encoding: gzip")
    interim = draw(st.sampled_from([b"", b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 E\r\nA: b\r\n\r\n"]))
    data = interim + "".join(f"{line}\r\n" for line in lines).encode("latin-1") + b"\r\n" + sent
    return data, (code, body, way != "end"), "end" if way == "end" else "more"


def cuts_of(data):
    return st.sets(st.integers(0, len(data)), max_size=12) | st.just(set(range(len(data))))


@examples(300)
@given(st.data())
def test_responses_are_the_same_in_any_pieces(data):
    sent, expected, then = data.draw(conversations())
    whole = read(sent, then=then)
    assert (whole[0], *whole[2:]) == expected
    assert read(sent, then=then, cuts=data.draw(cuts_of(sent))) == whole


ALL = [*(row[0] for rows in (COMPLETE, UNTIL_THE_END, WRONG) for row in rows.values()), *CUT_OFF.values()]
SHORT = [data for data in ALL if len(data) < 1000]


@examples(300)
@given(st.data())
def test_invalid_responses_are_invalid_in_any_pieces(data):
    """The messages may differ, as more or less of the response has been read when the error is noticed."""
    sent = data.draw(st.sampled_from(SHORT))
    for then in ("more", "end"):
        whole, cut = (read(sent, then=then, cuts=cuts) for cuts in ((), data.draw(cuts_of(sent))))
        if isinstance(whole, str):
            assert isinstance(cut, str)
            assert cut.partition(":")[0] == whole.partition(":")[0]
        else:
            assert cut == whole


@st.composite
def damaged(draw):
    """A response in which bytes were changed, lost or inserted."""
    data = bytearray(draw(st.sampled_from(SHORT)))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        data[at : at + draw(st.integers(0, 3))] = draw(st.binary(max_size=3) | st.sampled_from([b"\r\n", b"\n", b":"]))
    return bytes(data)


@examples(500)
@given(st.binary(max_size=200) | damaged(), st.data())
def test_any_bytes_are_a_response_or_an_error(sent, data):
    """Any bytes are either a response or an error once the connection ends; there is no other exception."""
    whole = read(sent, then="end")
    cut = read(sent, then="end", cuts=data.draw(cuts_of(sent)))
    if isinstance(whole, str):
        assert whole.partition(":")[0] in ("NotHttp", "ConnectionLost")
        assert isinstance(cut, str)
    else:
        assert cut == whole
