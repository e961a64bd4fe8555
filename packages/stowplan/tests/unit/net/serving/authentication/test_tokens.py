"""Bearer tokens: finding them in a request, reviewing them, and caching the results."""

import asyncio
import base64
import logging
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.kube.api.api_errors import (
    BadRequest,
    Forbidden,
    InternalError,
    ServiceUnavailable,
    StatusDetails,
    Timeout,
    TooManyRequests,
    Unauthorized,
)
from stowplan.kube.api.decode import DecodeError
from stowplan.kube.api.port import Unreachable
from stowplan.kube.api.users import TokenReviewStatus, UserInfo
from stowplan.kube.metrics.registry import MetricsRegistry
from stowplan.kube.metrics.serving import ServingMetrics
from stowplan.kube.timing.times import ManualTime, settle
from stowplan.net.client.client_errors import OutcomeUnknown
from stowplan.net.serving.access_metrics import AuthenticationMetrics
from stowplan.net.serving.authentication.tokens import (
    BearerTokens,
    ReviewedTokens,
    WebSocketTokens,
    bearer_token,
    web_socket_token,
    without_token,
)
from stowplan.net.serving.reviewer import Reviewer
from stowplan.net.serving.user import Rejected
from support.serving.delegation import NOBODY, ReviewingApi, bearer, headers, owned_by

PREFIX = "base64url.bearer.authorization.k8s.io."


@pytest.mark.parametrize(
    ("value", "token"),
    [
        pytest.param("Bearer t", "t", id="a token"),
        pytest.param("bEARER t", "t", id="in any case"),
        pytest.param("  Bearer t  ", "t", id="space around it"),
        pytest.param("Bearer t more", "t", id="more behind it"),
        pytest.param("Bearer  t", "", id="two spaces: no token"),
        pytest.param("Bearer", "", id="no token"),
        pytest.param("Bearer\tt", "", id="a tab is no space"),
        pytest.param("Basic dTpw", "", id="another scheme"),
        pytest.param("t", "", id="no scheme"),
        pytest.param("", "", id="nothing"),
        pytest.param("Bearer \udcff", "\ufffd", id="bytes that are no text"),
    ],
)
def test_bearer_tokens(value, token):
    assert bearer_token(headers(Authorization=value)) == token


def test_the_first_authorization_counts():
    assert bearer_token(headers(("Authorization", "Bearer a"), ("Authorization", "Bearer b"))) == "a"


def web_socket(*protocols, upgrade="websocket", connection="keep-alive, Upgrade"):
    return headers(
        ("Upgrade", upgrade),
        ("Connection", connection),
        *(("Sec-WebSocket-Protocol", protocol) for protocol in protocols),
    )


def encoded(token):
    return PREFIX + base64.urlsafe_b64encode(token.encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    ("request_headers", "token"),
    [
        pytest.param(web_socket(f"{encoded('t')}, v4"), "t", id="before another protocol"),
        pytest.param(web_socket("v4", encoded("tökén")), "tökén", id="in a field of its own"),
        pytest.param(web_socket("v4"), "", id="no token"),
        pytest.param(web_socket(f"v4,{PREFIX}"), "", id="an empty token"),
        pytest.param(web_socket(f"v4,{encoded('t')}", upgrade="h2c"), "", id="no WebSocket"),
        pytest.param(web_socket(f"v4,{encoded('t')}", connection="close"), "", id="no upgrade"),
        pytest.param(headers(("Sec-WebSocket-Protocol", f"v4,{encoded('t')}")), "", id="neither"),
        pytest.param(web_socket(f"v4,{encoded('t')}", upgrade="WebSocket"), "t", id="in any case"),
    ],
)
def test_web_socket_tokens(request_headers, token):
    assert web_socket_token(request_headers) == token


@pytest.mark.parametrize(
    ("protocols", "why"),
    [
        pytest.param([encoded("t")], "missing additional subprotocol", id="alone"),
        pytest.param(
            [f"v4,{encoded('t')}", encoded("u")], "multiple base64.bearer.authorization tokens specified", id="two"
        ),
        pytest.param([f"v4,{PREFIX}dA=="], "invalid base64.bearer.authorization token encoding", id="padded"),
        pytest.param([f"v4,{PREFIX}d+/A"], "invalid base64.bearer.authorization token encoding", id="another alphabet"),
        pytest.param([f"v4,{PREFIX}dAAAA"], "invalid base64.bearer.authorization token encoding", id="cut off"),
        pytest.param([f"v4,{PREFIX}_w"], "invalid base64.bearer.authorization token", id="no text"),
    ],
)
def test_invalid_web_socket_tokens(protocols, why):
    with pytest.raises(Rejected) as caught:
        web_socket_token(web_socket(*protocols))
    assert str(caught.value) == why


@given(st.text(min_size=1).filter(str.isprintable))
def test_any_token_can_be_sent_by_a_web_socket(token):
    assert web_socket_token(web_socket("v4", encoded(token))) == token


def test_pages_see_the_other_protocols():
    assert without_token(web_socket(f"v4, {encoded('t')}", "v5")) == ["v4", "v5"]


# --- reviews


class World:
    def __init__(self, *, kept_for=10.0, metrics=None):
        self.time = ManualTime()
        self.api = ReviewingApi()
        times = self.time
        requests = None if metrics is None else AuthenticationMetrics(metrics).requests
        self.tokens = ReviewedTokens(
            Reviewer(self.api, times=times, metrics=requests),
            kept_for=kept_for,
            key=b"a key",
            times=times,
            metrics=metrics,
        )

    async def owner(self, token="t", source="10.0.0.1"):
        return await self.tokens.owner_of(token, source=source)

    async def owner_in(self, seconds, token="t"):
        asking = asyncio.ensure_future(self.owner(token))
        await self.time.advance(seconds)
        assert asking.done(), f"it takes longer than {seconds} s"
        return await asking


@pytest.fixture
async def world():
    world = World()
    world.api.tokens["t"] = owned_by("alice", uid="7", groups=("g",), extra={"k": ("v",)})
    yield world
    await world.tokens.close()


ALICE = UserInfo("alice", uid="7", groups=("g",), extra={"k": ("v",)})


async def test_the_api_server_identifies_the_user(world):
    assert await world.owner() == ALICE
    (asked,) = world.api.asked
    assert (asked.spec.token, asked.spec.audiences) == ("t", ())


async def test_an_unknown_token(world):
    with pytest.raises(Rejected, match=r"^\[invalid bearer token\]$"):
        await world.owner("u")
    world.api.tokens["n"] = TokenReviewStatus()
    assert await world.owner("n") is None
    with pytest.raises(Rejected, match=r"^invalid bearer token$"):
        await BearerTokens(world.tokens).identify(bearer("n"), NOBODY)
    with pytest.raises(Rejected, match=r"^invalid bearer token$"):
        await WebSocketTokens(world.tokens).identify(web_socket("v4", encoded("n")), NOBODY)


async def test_a_request_without_a_token_causes_no_review(world):
    assert await BearerTokens(world.tokens).identify(headers(), NOBODY) is None
    assert await WebSocketTokens(world.tokens).identify(headers(), NOBODY) is None
    assert world.api.asked == []


@pytest.mark.parametrize("token", ["t", "u"], ids=["somebody's", "nobody's"])
async def test_results_are_cached_for_their_ttl(world, token):
    for seconds, asked in ((0, 1), (9.9, 1), (0.2, 2)):
        await world.time.advance(seconds)
        await asyncio.gather(world.owner(token), return_exceptions=True)
        assert len(world.api.asked) == asked


async def test_results_are_not_cached_with_a_ttl_of_zero():
    world = World(kept_for=0.0)
    world.api.tokens["t"] = owned_by("alice")
    await world.owner()
    await world.owner()
    assert len(world.api.asked) == 2


async def test_concurrent_requests_with_one_token_share_a_review(world):
    world.api.hold()
    asking = [asyncio.ensure_future(world.owner()) for _ in range(20)]
    other = asyncio.ensure_future(world.owner("u"))
    await settle()
    asking[0].cancel()  # the first client disconnects, the others still wait
    await settle()
    assert len(world.api.asked) == 2
    world.api.let_go()
    assert await asyncio.gather(*asking[1:]) == [ALICE] * 19
    with pytest.raises(Rejected):
        await other


async def test_errors_are_not_cached(world):
    world.api.trouble = [Unreachable("https://s: connection refused")]
    with pytest.raises(Rejected, match=r"^https://s: connection refused$"):
        await world.owner()
    assert await world.owner() == ALICE


THROTTLED = ServiceUnavailable("wait", details=StatusDetails(retry_after_seconds=1))


@pytest.mark.parametrize(
    "error",
    [InternalError("e"), Timeout("e"), TooManyRequests("e"), OutcomeUnknown("e"), THROTTLED],
    ids=lambda error: type(error).__name__,
)
async def test_temporary_errors_are_retried(world, error):
    world.api.trouble = [error] * 3
    # 0.5 + 0.75 + 1.125 s, plus up to a fifth at random.
    asking = asyncio.ensure_future(world.owner())
    await world.time.advance(2.375 * 1.1 - 0.01)
    assert not asking.done()
    await world.time.advance(0.02)
    assert await asking == ALICE
    assert len(world.api.asked) == 4


async def test_retries_end_after_five_attempts(world):
    world.api.trouble = [InternalError("etcd is gone")] * 9
    with pytest.raises(Rejected, match=r"^etcd is gone$"):
        await world.owner_in(9.9)
    assert len(world.api.asked) == 5


@pytest.mark.parametrize(
    "error",
    [
        Forbidden("no"),
        BadRequest("no"),
        Unauthorized("no"),
        ServiceUnavailable("no"),
        Unreachable("no"),
        DecodeError(field="status", message="no"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_refusals_are_final(world, error):
    world.api.trouble = [error]
    with pytest.raises(Rejected, match=r"no$"):
        await world.owner()
    assert len(world.api.asked) == 1


async def test_reviews_time_out_after_ten_seconds(world):
    world.api.hold()
    asking = asyncio.ensure_future(world.owner())
    await world.time.advance(9.9)
    assert not asking.done()
    await world.time.advance(0.2)
    with pytest.raises(Rejected, match=r"^no answer within 10 seconds$"):
        await asking


# --- secrets

CANARY = "canary-" + "x" * 40


async def test_tokens_are_neither_stored_nor_logged(world, caplog):
    caplog.set_level(logging.DEBUG)
    world.api.tokens[CANARY] = owned_by("alice")
    await world.owner(CANARY)
    reviews = world.api.asked.copy()
    world.api.tokens[CANARY] = TokenReviewStatus(error=f"token {CANARY} is no good")
    world.api.trouble = [None, BadRequest(f"cannot read {CANARY}")]
    await world.time.advance(11)
    texts = []
    for _ in range(2):
        await world.time.advance(11)
        with pytest.raises(Rejected) as caught:
            await world.owner(CANARY)
        texts.append(str(caught.value))
    assert texts == ["token <token> is no good", "cannot read <token>"]
    assert CANARY not in caplog.text + repr(reviews) + repr(vars(world.tokens)) + repr(vars(world.tokens._answers))


@pytest.mark.parametrize(("token", "told"), [("1234567", "what is 1234567?"), ("12345678", "what is <token>?")])
async def test_short_tokens_are_not_redacted(world, token, told):
    world.api.tokens[token] = TokenReviewStatus(error=f"what is {token}?")
    with pytest.raises(Rejected) as caught:
        await world.owner(token)
    assert str(caught.value) == told


async def test_cache_keys_have_a_fixed_size(world):
    with pytest.raises(Rejected):
        await world.owner("x" * 1_000_000)
    assert {len(key) for key in world.tokens._answers._kept} == {32}


async def test_cache_keys_differ_between_processes(world):
    other = World()
    other.tokens._key = b"another key"
    other.api.tokens = world.api.tokens
    await world.owner()
    await other.owner()
    assert world.tokens._answers._kept.keys().isdisjoint(other.tokens._answers._kept.keys())


# --- metrics


@pytest.mark.parametrize(
    ("status", "counted"),
    [
        pytest.param(owned_by("alice"), "ok", id="a yes"),
        pytest.param(TokenReviewStatus(), "ok", id="a no"),
        pytest.param(TokenReviewStatus(error="no"), "error", id="a no with a text"),
    ],
)
async def test_errors_in_cache_metrics(status, counted):
    metrics = ServingMetrics(MetricsRegistry())
    world = World(metrics=metrics)
    world.api.tokens["t"] = status
    with suppress(Rejected):
        await world.owner()
    fetched = {values: child.value for values, child in metrics.authentication_token_cache_fetch_total.series()}
    assert fetched == {(counted,): 1}


async def test_metrics_of_reviews_and_cache():
    metrics = ServingMetrics(MetricsRegistry())
    world = World(metrics=metrics)
    world.api.tokens["t"] = owned_by("alice")
    active = metrics.authentication_token_cache_active_fetch_count
    world.api.hold()
    asking = [asyncio.ensure_future(world.owner()) for _ in range(3)]
    await settle()
    assert [active.with_label_values(status).value for status in ("blocked", "in_flight")] == [3, 1]
    await world.time.advance(2)
    world.api.let_go()
    await asyncio.gather(*asking)
    await world.owner()
    world.api.trouble = [Unreachable("gone")]
    with pytest.raises(Rejected):
        await world.owner("u")
    world.api.trouble = [Forbidden("no")]
    with pytest.raises(Rejected):
        await world.owner("u")
    with pytest.raises(Rejected):
        await world.owner("u")
    assert [active.with_label_values(status).value for status in ("blocked", "in_flight")] == [0, 0]
    counted = {
        name: {status: getattr(metrics, name).with_label_values(status).value for status in statuses}
        for name, statuses in {
            "authentication_token_cache_request_total": ("hit", "miss"),
            "authentication_token_cache_fetch_total": ("ok", "error"),
            "apiserver_delegated_authn_request_total": ("201", "403", "<error>"),
        }.items()
    }
    assert counted == {
        "authentication_token_cache_request_total": {"hit": 1, "miss": 6},
        "authentication_token_cache_fetch_total": {"ok": 1, "error": 3},
        "apiserver_delegated_authn_request_total": {"201": 2, "403": 1, "<error>": 1},
    }
    seconds = metrics.apiserver_delegated_authn_request_duration_seconds.with_label_values("201")
    assert seconds.sum == 2
