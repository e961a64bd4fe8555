"""A secure port for tests, fake authentication and authorization, and clients that send exactly what a test says."""

from __future__ import annotations

import asyncio
import ssl
import tempfile
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from msgspec.structs import replace
from multidict import CIMultiDict, CIMultiDictProxy

from stowplan.kube.api.api_errors import Forbidden, Unauthorized
from stowplan.kube.api.users import ANONYMOUS_USER, UserInfo
from stowplan.kube.timing.times import REAL_TIMES
from stowplan.net.serving.requests.messages import Request
from stowplan.net.serving.secure_server import SecureServer, ServingSettings
from stowplan.net.serving.tls.key_pairs import CertificateFiles
from support.http.certificates import make_ca, make_server_certificate

_FOLDER = tempfile.TemporaryDirectory(prefix="serving-")


def _pair():
    """Cached for all tests: generating a key is slow."""
    made = make_server_certificate(make_ca(), ["localhost", "127.0.0.1"])
    certificate, key = Path(_FOLDER.name, "tls.crt"), Path(_FOLDER.name, "tls.key")
    certificate.write_bytes(made.certificate)
    key.write_bytes(made.key)
    return CertificateFiles(certificate=str(certificate), key=str(key))


LOCAL = ServingSettings(bind_address="127.0.0.1", port=0, certificate=_pair())


@dataclass
class FakeAccess:
    """Allows all users but those with a wrong token, and all paths but the forbidden ones."""

    forbidden: tuple[str, ...] = ()
    peers: list = field(default_factory=list)
    asked: list = field(default_factory=list)

    async def authenticate(self, headers, peer):
        self.peers.append(peer)
        token = headers.get("Authorization", "").removeprefix("Bearer ")
        if token == "wrong":
            raise Unauthorized("Unauthorized")
        return UserInfo(token) if token else ANONYMOUS_USER

    def without_credentials(self, headers):
        return CIMultiDictProxy(CIMultiDict((k, v) for k, v in headers.items() if k.lower() != "authorization"))

    async def authorize(self, user, *, verb, path):
        self.asked.append((user.name, verb, path))
        if path in self.forbidden:
            raise Forbidden(f'forbidden: User "{user.name}" cannot {verb} path "{path}"')


@asynccontextmanager
async def secure_server(pages, *, settings=LOCAL, access=None, times=REAL_TIMES, listener=None, grace=5.0):
    access = access or FakeAccess()
    server = SecureServer(
        settings, pages=pages, authenticator=access, authorizer=access, times=times, listener=listener
    )
    await server.start()
    try:
        yield server
    finally:
        await server.stop(grace)


def asked(path="/", **fields):
    """A request as a page gets it."""
    headers = CIMultiDictProxy(CIMultiDict(fields.pop("headers", {})))
    return Request(method=fields.pop("method", "GET"), path=path, user=ANONYMOUS_USER, headers=headers, **fields)


def trusting(**files):
    """A TLS client that accepts any server; `cert` and `key` are files of its own certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if files:
        context.load_cert_chain(files["cert"], files["key"])
    return context


class Client:
    """One connection."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer

    async def __aenter__(self):
        return self

    async def __aexit__(self, *exc):
        self.writer.close()
        with suppress(OSError, ssl.SSLError, TimeoutError):
            await asyncio.wait_for(self.writer.wait_closed(), 5)

    @property
    def certificate(self):
        """DER of the server's certificate."""
        return self.writer.get_extra_info("ssl_object").getpeercert(binary_form=True)

    async def send(self, data):
        self.writer.write(data)
        await self.writer.drain()

    async def ask(self, path, method="GET", body=b"", **headers):
        """(status, headers, body) of one response; the connection stays open."""
        named = {"Host": "test", **{name.replace("_", "-"): value for name, value in headers.items()}}
        if body:
            named["Content-Length"] = str(len(body))
        head = "".join(f"{name}: {value}\r\n" for name, value in named.items())
        await self.send(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + body)
        return await self.answer(method)

    async def answer(self, method="GET"):
        head = await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), 10)
        first, *lines = head.decode("latin-1").split("\r\n")[:-2]
        headers = CIMultiDict(line.split(": ", 1) for line in lines)
        length = int(headers.get("Content-Length", 0)) if method != "HEAD" else 0
        return int(first.split()[1]), headers, await asyncio.wait_for(self.reader.readexactly(length), 10)

    async def rest(self):
        """Everything that arrives until the server closes."""
        try:
            return await asyncio.wait_for(self.reader.read(), 10)
        except (OSError, ssl.SSLError):
            return b""


async def connected(server, *, tls=None, name=None, plain=False):
    context = None if plain else (tls or trusting())
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", server.port, ssl=context, server_hostname=None if plain else (name or "127.0.0.1")
    )
    return Client(reader, writer)


def with_settings(**changes):
    return replace(LOCAL, **changes)
