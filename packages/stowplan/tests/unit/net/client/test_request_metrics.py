"""Metrics of requests: each try, total duration, waiting time and sizes; watches count when they start."""

import json
from contextlib import asynccontextmanager, suppress

import pytest

from stowplan.kube.api.api_errors import ApiError
from stowplan.kube.api.port import Unreachable
from stowplan.kube.api.types import Node, Pod
from stowplan.kube.config import ClientConnection
from stowplan.kube.metrics.client_metrics import ClientMetrics
from stowplan.kube.metrics.registry import MetricsRegistry
from stowplan.net.client.http_api import HttpApi
from stowplan.net.client.request_metrics import RequestMetrics
from support.api.clients import AGENT, SHORT, UNLIMITED, VirtualTime, a_connection, a_pod, a_pod_list
from support.http.misbehaving_server import Misbehaving, answers, resets, status, streams
from support.observing.metrics import numbers

POD = answers(200, a_pod())


@asynccontextmanager
async def counted(server, *, settings=UNLIMITED):
    """The API of a server, the metrics, and how the server is called in them."""
    time, metrics = VirtualTime(), ClientMetrics(MetricsRegistry())
    options = {"client_settings": settings, "agent": AGENT, "times": time, "limits": SHORT}
    async with HttpApi.open(a_connection(server.url), metrics=metrics, **options) as api:
        yield api, metrics, server.url.removeprefix("http://")


async def get(api):
    return await api.get(Pod, "web-0", namespace="default")


async def patch(api):
    return await api.patch(Node, "n", {"spec": {}}, type_="merge")


@pytest.mark.parametrize(
    ("call", "fates", "codes", "again"),
    [
        pytest.param(get, [POD], {("200", "GET"): 1}, {}, id="an answer"),
        pytest.param(get, [answers(404, status(404, "NotFound"))], {("404", "GET"): 1}, {}, id="a refusal"),
        pytest.param(
            get, [answers(503), POD], {("503", "GET"): 1, ("200", "GET"): 1}, {("200", "GET"): 1}, id="a second try"
        ),
        pytest.param(
            get, [resets, POD], {("<error>", "GET"): 1, ("200", "GET"): 1}, {("200", "GET"): 1}, id="no answer at first"
        ),
        pytest.param(patch, [resets], {("<error>", "PATCH"): 1}, {}, id="no answer"),
    ],
)
async def test_tries_are_counted(call, fates, codes, again):
    async with Misbehaving(*fates) as server, counted(server) as (api, metrics, host):
        with suppress(ApiError, Unreachable):
            await call(api)
        method = next(iter(codes))[1]
        assert numbers(metrics.rest_client_requests_total) == {(*key, host): n for key, n in codes.items()}
        assert numbers(metrics.rest_client_request_retries_total) == {(*key, host): n for key, n in again.items()}
        # One request, whatever the number of tries.
        assert numbers(metrics.rest_client_request_duration_seconds) == {(method, host): 1}
        tries = sum(codes.values())
        assert numbers(metrics.rest_client_rate_limiter_duration_seconds) == {(method, host): tries}
        assert numbers(metrics.rest_client_request_size_bytes) == {(method, host): tries}


async def test_sizes_and_times():
    async with Misbehaving(answers(503), POD) as server, counted(server) as (api, metrics, host):
        await get(api)
        received = metrics.rest_client_response_size_bytes.with_label_values("GET", host)
        sent = metrics.rest_client_request_size_bytes.with_label_values("GET", host)
        took = metrics.rest_client_request_duration_seconds.with_label_values("GET", host)
        assert (received.count, received.sum, sent.sum) == (1, len(json.dumps(a_pod())), 0)
        # Includes the delay between the tries.
        assert took.sum == pytest.approx(0.1)
    async with Misbehaving(answers(200, b"{}")) as server, counted(server) as (api, metrics, host):
        await patch(api)
        assert metrics.rest_client_request_size_bytes.with_label_values("PATCH", host).sum == len(b'{"spec":{}}')


async def test_waiting_for_a_turn():
    settings = ClientConnection(qps=2.0, burst=1)
    async with Misbehaving(POD, POD) as server, counted(server, settings=settings) as (api, metrics, host):
        await get(api)
        await get(api)
        waited = metrics.rest_client_rate_limiter_duration_seconds.with_label_values("GET", host)
        assert (waited.count, waited.sum) == (2, pytest.approx(0.5, abs=1e-3))
        assert metrics.rest_client_request_duration_seconds.with_label_values("GET", host).sum >= 0.49


@pytest.mark.parametrize(
    ("fate", "code"),
    [
        pytest.param(streams(b"\n", then="end"), "200", id="begins"),
        pytest.param(answers(410, status(410, "Expired")), "410", id="is refused"),
        pytest.param(resets, "<error>", id="is not answered"),
    ],
)
async def test_watches_have_no_duration(fate, code):
    async with Misbehaving(fate) as server, counted(server) as (api, metrics, host):
        with suppress(ApiError, Unreachable):
            async for _ in api.watch(Pod, resource_version="1"):
                pass
        assert numbers(metrics.rest_client_requests_total) == {(code, "GET", host): 1}
        assert numbers(metrics.rest_client_request_duration_seconds) == {}
        assert numbers(metrics.rest_client_response_size_bytes) == {}


@pytest.mark.parametrize(
    ("server", "host"),
    [
        ("https://10.0.0.1:6443", "10.0.0.1:6443"),
        ("https://api.example", "api.example"),
        ("https://[::1]:6443/prefix", "[::1]:6443"),
        ("https://me:secret@api.example:443", "api.example:443"),
    ],
)
def test_the_name_of_the_server(server, host):
    metrics = ClientMetrics(MetricsRegistry())
    RequestMetrics(metrics, server=server).of("GET").tried("200")
    assert numbers(metrics.rest_client_requests_total) == {("200", "GET", host): 1}


async def test_requests_work_without_metrics():
    async with Misbehaving(answers(200, a_pod_list())) as server:
        options = {"client_settings": UNLIMITED, "agent": AGENT, "limits": SHORT}
        async with HttpApi.open(a_connection(server.url), **options) as api:
            assert (await api.list(Pod)).items == ()
        assert len(server.seen) == 1
