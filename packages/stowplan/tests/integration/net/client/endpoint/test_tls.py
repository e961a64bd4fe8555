"""TLS settings with a real server: trust, client certificates, and files that change."""

import asyncio
import logging
import ssl
import sys
import tempfile
from contextlib import asynccontextmanager

import pytest
from cryptography.hazmat.primitives import serialization

from stowplan.net.client.client_errors import ClientConfigError
from stowplan.net.client.endpoint import tls as tls_module
from stowplan.net.client.endpoint.file_content import FileContent, InlineContent
from stowplan.net.client.endpoint.tls import CertificatePair, TlsSettings
from support.http import certificates
from support.http.kubeconfigs import Clock

CA = certificates.make_ca()
OTHER_CA = certificates.make_ca("other")
SERVER = certificates.make_server_certificate(CA, ["kubernetes.default", "127.0.0.1"])
COMMON = certificates.make_server_certificate(CA, ["127.0.0.1"], common_name="common")
ALICE = certificates.make_client_certificate(CA, "alice", ("system:masters", "ops"))
BOB = certificates.make_client_certificate(CA, "bob")


def inline(data, field="certificate-authority-data"):
    return InlineContent(data, where=f'config: cluster "c": {field}')


def pair(certificate, key=None):
    return CertificatePair(
        certificate=inline(certificate.certificate, "client-certificate-data"),
        key=inline((key or certificate).key, "client-key-data"),
    )


@asynccontextmanager
async def a_server(tmp_path, identity=SERVER, client_ca=CA):
    """Serve TLS on a free port; each connection gets the user that the server saw."""
    (tmp_path / "server.pem").write_bytes(identity.certificate + identity.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem")
    context.verify_mode = ssl.CERT_OPTIONAL
    context.load_verify_locations(cadata=client_ca.certificate.decode())

    async def tell(reader, writer):
        shown = writer.get_extra_info("peercert") or {"subject": ((("commonName", "anonymous"),),)}
        names = [f"{key}={value}" for part in shown["subject"] for key, value in part]
        writer.write("\n".join(names).encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(tell, "127.0.0.1", 0, ssl=context)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def user_seen_by(port, settings):
    host = settings.server_name or "127.0.0.1"
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=settings.context(), server_hostname=host)
    try:
        return (await reader.read()).decode().splitlines()
    finally:
        writer.close()
        await writer.wait_closed()


# -- trust


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"ca": inline(CA.certificate)}, id="by address"),
        pytest.param({"ca": inline(CA.certificate), "server_name": "kubernetes.default"}, id="by tls-server-name"),
        pytest.param({"ca": inline(OTHER_CA.certificate + CA.certificate)}, id="second certificate of the bundle"),
        pytest.param({"ca": inline("# Türkçe\n".encode() + CA.certificate)}, id="a comment that is not ASCII"),
        pytest.param(
            {"ca": inline(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n" + CA.certificate)},
            id="a broken certificate before a good one",
        ),
        pytest.param({"ca": inline(CA.certificate.replace(b"\n", b"\r\n"))}, id="CRLF"),
        pytest.param({"ca": inline(SERVER.certificate)}, id="the server's own certificate"),
        pytest.param({"insecure": True}, id="insecure"),
    ],
)
async def test_trusted(tmp_path, settings):
    async with a_server(tmp_path) as port:
        assert await user_seen_by(port, TlsSettings(**settings)) == ["commonName=anonymous"]


@pytest.mark.parametrize(
    ("settings", "identity"),
    [
        pytest.param({"ca": inline(OTHER_CA.certificate)}, SERVER, id="another CA"),
        pytest.param({}, SERVER, id="system certificates"),
        pytest.param({"ca": inline(CA.certificate), "server_name": "elsewhere"}, SERVER, id="another name"),
        pytest.param(
            {"ca": inline(CA.certificate), "server_name": "common"}, COMMON, id="a common name is no server's name"
        ),
    ],
)
async def test_not_trusted(tmp_path, settings, identity):
    async with a_server(tmp_path, identity) as port:
        with pytest.raises(ssl.SSLCertVerificationError):
            await user_seen_by(port, TlsSettings(**settings))


def test_old_protocols_are_refused():
    assert TlsSettings(ca=inline(CA.certificate)).context().minimum_version == ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "no PEM certificate in it"),
        (b"garbage", "no PEM certificate in it"),
        (ALICE.key, "no PEM certificate in it"),
        (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "none of its certificates can be read"),
        (b"-----BEGIN CERTIFICATE-----\n!?\n-----END CERTIFICATE-----\n", "none of its certificates can be read"),
    ],
)
def test_an_invalid_ca(data, message):
    with pytest.raises(ClientConfigError) as caught:
        TlsSettings(ca=inline(data)).context()
    assert str(caught.value).startswith(f'config: cluster "c": certificate-authority-data: {message}')


def test_a_missing_ca_file(tmp_path):
    ca = FileContent(f"{tmp_path}/ca.crt", where='config: cluster "c": certificate-authority', clock=Clock())
    with pytest.raises(ClientConfigError) as caught:
        TlsSettings(ca=ca).context()
    assert str(caught.value) == (
        f'config: cluster "c": certificate-authority {tmp_path}/ca.crt: No such file or directory'
    )


# -- client certificates


async def test_a_client_certificate_is_presented(tmp_path):
    async with a_server(tmp_path) as port:
        settings = TlsSettings(ca=inline(CA.certificate), certificate=pair(ALICE))
        assert await user_seen_by(port, settings) == [
            "organizationName=system:masters",
            "organizationName=ops",
            "commonName=alice",
        ]


def encrypted(certificate):
    key = serialization.load_pem_private_key(certificate.key, password=None)
    return certificates.Certificate(
        certificate.certificate,
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"passphrase"),
        ),
    )


BROKEN_KEY = certificates.Certificate(b"", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
BROKEN_CERTIFICATE = certificates.Certificate(
    b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", ALICE.key
)


@pytest.mark.parametrize(
    ("certificate", "key", "message"),
    [
        pytest.param(ALICE, BOB, "the client key does not belong to the client certificate", id="another's key"),
        pytest.param(ALICE, encrypted(ALICE), "the client key is encrypted", id="encrypted key"),
        pytest.param(ALICE, BROKEN_KEY, "cannot be read", id="broken key"),
        pytest.param(BROKEN_CERTIFICATE, ALICE, "cannot be read", id="broken certificate"),
        pytest.param(certificates.Certificate(b"x", b""), ALICE, "no PEM certificate in", id="no certificate"),
        pytest.param(ALICE, certificates.Certificate(b"", b"x"), "no PEM private key in", id="no key"),
    ],
)
def test_invalid_certificate_pairs(certificate, key, message):
    with pytest.raises(ClientConfigError) as caught:
        TlsSettings(ca=inline(CA.certificate), certificate=pair(certificate, key)).context()
    assert message in str(caught.value)
    assert 'config: cluster "c": client-certificate-data and client-key-data: ' in str(caught.value)
    assert "PRIVATE KEY" not in str(caught.value)


def test_keys_are_not_in_reprs():
    settings = TlsSettings(ca=inline(CA.certificate), certificate=pair(ALICE))
    settings.context()
    certificate = settings.certificate.client_certificate()
    assert "PRIVATE" not in repr([settings, settings.certificate, certificate])


@pytest.mark.skipif(sys.platform != "linux", reason="files in memory are Linux's")
def test_keys_are_never_written_to_disk(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("a file on disk")

    monkeypatch.setattr(tempfile, "mkstemp", refuse)
    TlsSettings(ca=inline(CA.certificate), certificate=pair(ALICE)).context()


@pytest.mark.parametrize("key", [ALICE, BOB], ids=["good pair", "bad pair"])
def test_without_memfd_no_file_is_left(monkeypatch, tmp_path, key):
    modes = []

    def watched_unlink(path, *args, **kwargs):
        modes.append(path.stat().st_mode & 0o777)
        return unlink(path, *args, **kwargs)

    unlink = tls_module.Path.unlink
    monkeypatch.setattr(tls_module, "_memory_file", lambda: None)
    monkeypatch.setattr(tls_module.Path, "unlink", watched_unlink)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    settings = TlsSettings(ca=inline(CA.certificate), certificate=pair(ALICE, key))
    if key is ALICE:
        settings.context()
    else:
        with pytest.raises(ClientConfigError):
            settings.context()
    assert modes == [0o600, 0o600]
    assert list(tmp_path.iterdir()) == []


# -- changing files


class Files:
    def __init__(self, folder):
        self.clock = Clock()
        self.folder = folder
        self.write("ca", CA.certificate)
        self.write("crt", ALICE.certificate)
        self.write("key", ALICE.key)
        certificate = CertificatePair(certificate=self.content("crt"), key=self.content("key"))
        self.settings = TlsSettings(ca=self.content("ca"), certificate=certificate)

    def content(self, name):
        return FileContent(str(self.folder / name), where=f"config: {name}", clock=self.clock)

    def write(self, name, data):
        (self.folder / name).write_bytes(data)
        self.clock.advance(1)


@pytest.fixture
def files(tmp_path):
    folder = tmp_path / "files"
    folder.mkdir()
    return Files(folder)


def test_the_context_is_kept_while_nothing_changes(files):
    context = files.settings.context()
    files.write("crt", ALICE.certificate)
    assert files.settings.context() is context


async def test_a_partly_renewed_pair_keeps_the_old_one(files, tmp_path, caplog):
    async with a_server(tmp_path) as port:
        before = files.settings.context()
        files.write("crt", BOB.certificate)
        with caplog.at_level(logging.WARNING):
            assert files.settings.context() is before
            assert files.settings.context() is before
        assert len(caplog.records) == 1
        assert (await user_seen_by(port, files.settings))[-1] == "commonName=alice"
        files.write("key", BOB.key)
        assert await user_seen_by(port, files.settings) == ["commonName=bob"]


async def test_a_renewed_ca_is_trusted(files, tmp_path):
    identity = certificates.make_server_certificate(OTHER_CA, ["127.0.0.1"])
    async with a_server(tmp_path, identity) as port:
        with pytest.raises(ssl.SSLCertVerificationError):
            await user_seen_by(port, files.settings)
        files.write("ca", OTHER_CA.certificate)
        assert (await user_seen_by(port, files.settings))[-1] == "commonName=alice"


@pytest.mark.parametrize("broken", [b"", b"garbage"], ids=["empty", "garbage"])
def test_a_broken_ca_keeps_the_old_one(files, broken):
    before = files.settings.context()
    files.write("ca", broken)
    assert files.settings.context() is before


def test_deleted_files_keep_the_old_context(files, caplog):
    before = files.settings.context()
    for name in ("ca", "crt", "key"):
        (files.folder / name).unlink()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            files.clock.advance(1)
            assert files.settings.context() is before
    assert len(caplog.records) == 3, "once per file"
