"""How we read unusual servers' responses, compared with aiohttp."""

import pytest
from yarl import URL

from stowplan.net.client.http.aiohttp_session import AiohttpSession
from stowplan.net.client.http.connection_pool import ConnectionPool
from stowplan.net.client.http.failures import NotAnswered
from stowplan.net.client.http.responses import Answer, Subject
from stowplan.net.client.http.transport import Limits, Request
from support.api.clients import AGENT, a_connection
from support.http.http_answers import COMPLETE, CUT_OFF, UNTIL_THE_END, WRONG
from support.http.misbehaving_server import Misbehaving, sends

LIMITS = Limits(silence=1.0)

#: Where we refuse what aiohttp accepts, or the other way round, and why.
DIFFERENT = {
    "extensions": "spaces are allowed there",
    "trailers": "a length among them means nothing",
    "RTSP": "is no HTTP",
    "an empty line first": "belongs to nothing",
    "a code below 100": "is none",
    "LF only": "would need a second way to find the end of a head",
    "LF among others": "likewise",
    "a space before the colon": "is how requests are smuggled past proxies",
    "a header over two lines": "likewise",
    "another coding": "which leaves open where the body ends",
    "chunked twice": "likewise",
    "no gzip": "is not an empty body",
    "half a gzip": "is not a body",
    "gzip and more": "is not a body",
    "upgrade": "is no answer",
}

ODD = {
    **{name: row[0] for rows in (COMPLETE, UNTIL_THE_END, WRONG) for name, row in rows.items()},
    **CUT_OFF,
}


async def outcome_of(exchange):
    try:
        answer = await exchange
    except NotAnswered as error:
        return "no answer", error.failure.sent
    assert isinstance(answer, Answer)
    return answer.code, answer.body, answer.content_type


@pytest.mark.parametrize("name", ODD)
async def test_unusual_responses_are_read_as_by_aiohttp(name):
    request = Request(method="GET", path="/x", subject=Subject("GET"))
    async with Misbehaving(sends(ODD[name]), sends(ODD[name])) as server:
        pool = ConnectionPool(URL(server.url), tls=None, limits=LIMITS)
        session = AiohttpSession(a_connection(server.url), fields={"User-Agent": AGENT}, limits=LIMITS)
        ours, theirs = (
            await outcome_of(pool.exchange(b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n")),
            await outcome_of(session.exchange(request, {})),
        )
        await session.close()
        await pool.close()
    assert (ours == theirs) == (name not in DIFFERENT), (ours, theirs)
