"""Starting and stopping: sockets, TLS, the kubeconfig."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from stowplan_cluster.apiserver.api_server import ApiServer
from stowplan_cluster.front.front_settings import FrontSettings
from stowplan_cluster.front.http_front import Front


@pytest.fixture
def server():
    made = ApiServer()
    yield made
    made.close()


def trusting(front: Front) -> ssl.SSLContext:
    assert front.ca_certificate is not None
    return ssl.create_default_context(cadata=front.ca_certificate.decode())


async def status_of(front: Front, url: str, context: ssl.SSLContext) -> int:
    headers = {"Authorization": f"Bearer {front.token}"}
    connector = aiohttp.TCPConnector(ssl=context)
    async with aiohttp.ClientSession(connector=connector) as session, session.get(url, headers=headers) as response:
        return response.status


@asynccontextmanager
async def started(server: ApiServer, **settings) -> AsyncIterator[Front]:
    front = Front(server, settings=FrontSettings(**settings))
    await front.start()
    try:
        yield front
    finally:
        await front.stop()


async def test_clients_with_the_authority_trust_the_server(server):
    async with started(server) as front:
        assert front.url.startswith("https://127.0.0.1:")
        assert await status_of(front, f"{front.url}/api", trusting(front)) == 200
        by_name = front.url.replace("127.0.0.1", "localhost")
        assert await status_of(front, f"{by_name}/api", trusting(front)) == 200
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await status_of(front, f"{front.url}/api", ssl.create_default_context())


async def test_saved_certificates_outlive_the_front(server, tmp_path):
    async with started(server, certificates=tmp_path / "pki") as first:
        context = trusting(first)
    async with started(server, certificates=tmp_path / "pki") as second:
        assert await status_of(second, f"{second.url}/api", context) == 200


async def test_plain_connections_to_the_tls_port_are_closed_silently(server, caplog):
    async with started(server) as front:
        for sent in (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01garbage", b""):
            reader, writer = await asyncio.open_connection("127.0.0.1", int(front.url.rpartition(":")[2]))
            writer.write(sent)
            writer.write_eof()
            await reader.read(-1)
            writer.close()
            await writer.wait_closed()
        assert await status_of(front, f"{front.url}/livez", trusting(front)) == 200
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_each_front_has_a_random_token(server):
    tokens = {Front(server).token for _ in range(3)}
    assert len(tokens) == 3
    assert all(len(token) >= 32 for token in tokens)
    assert Front(server, settings=FrontSettings(token="mine")).token == "mine"
    assert "mine" not in repr(FrontSettings(token="mine"))


async def test_it_listens_on_loopback_by_default(server):
    async with started(server, tls=False) as front:
        assert [listening.getsockname()[0] for listening in front._listening.sockets] == ["127.0.0.1"]


async def test_the_url_of_a_wildcard_address_is_the_loopback(server):
    async with started(server, tls=False, host="0.0.0.0") as front:
        assert front.url.startswith("http://127.0.0.1:")


async def test_a_port_in_use_is_an_error_and_nothing_is_left_running(server):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        front = Front(server, settings=FrontSettings(tls=False, port=port))
        with pytest.raises(OSError, match=str(port)):
            await front.start()
        await front.stop()


async def test_stopping_frees_the_port_and_closes_connections(server):
    async with started(server, tls=False) as front:
        port = int(front.url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await reader.readline()).endswith(b"200 OK\r\n")
        await front.stop()
        await reader.read(-1)
        writer.close()
        await writer.wait_closed()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)


async def test_two_fronts_serve_one_store(server):
    async with (
        started(server, tls=False, token="t") as one,
        started(server, tls=False, token="t") as other,
        aiohttp.ClientSession(headers={"Authorization": "Bearer t"}) as session,
    ):
        path = "/api/v1/namespaces/default/configmaps"
        async with session.post(one.url + path, json={"metadata": {"name": "c"}}) as response:
            assert response.status == 201
        async with session.get(f"{other.url}{path}/c") as response:
            assert response.status == 200


async def test_the_kubeconfig_refers_to_this_front(server, tmp_path):
    async with started(server) as front:
        front.write_kubeconfig(tmp_path / "kubeconfig")
        assert front.url in (tmp_path / "kubeconfig").read_text()
        assert front.kubeconfig()["users"][0]["user"]["token"] == front.token


async def test_unexpected_exceptions_are_status_500_and_logged(server, caplog):
    def broken(*_arguments: object) -> None:
        raise ZeroDivisionError("a bug")

    async with (
        started(server, tls=False, token="t") as front,
        aiohttp.ClientSession(headers={"Authorization": "Bearer t"}) as session,
    ):
        server.registry.get = broken
        async with session.get(f"{front.url}/api/v1/namespaces/default") as response:
            told = await response.json()
        assert (response.status, told["reason"], told["code"]) == (500, "InternalError", 500)
        assert "a bug" not in told["message"]
        async with session.get(f"{front.url}/livez") as response:
            assert response.status == 200
    assert ["a bug" in record.exc_text for record in caplog.records if record.exc_text] == [True]
