"""TLS options: versions, cipher suites and curves by Go's names."""

import ssl

import pytest
from OpenSSL import SSL

from stowplan.net.serving.requests.health import HealthChecks
from stowplan.net.serving.serving_error import ServingError
from stowplan.net.serving.tls.tls_parameters import TlsOptions, tls_parameters
from support.serving.secure_port import connected, secure_server, trusting, with_settings

PAGES = HealthChecks("healthz", {}).pages


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (TlsOptions(min_version="VersionTLS14"), 'unknown tls version "VersionTLS14"'),
        (TlsOptions(cipher_suites=["FOO"]), "Cipher suite FOO not supported or doesn't exist"),
        (TlsOptions(curves=[99999]), "curve preference 99999 is out of range (must be 1-65535)"),
        (TlsOptions(curves=[0]), "curve preference 0 is out of range (must be 1-65535)"),
        (TlsOptions(curves=[9]), "OpenSSL has none of the curves 9"),
        (
            TlsOptions(cipher_suites=["TLS_RSA_WITH_RC4_128_SHA"]),
            "OpenSSL has none of the cipher suites TLS_RSA_WITH_RC4_128_SHA",
        ),
    ],
)
def test_invalid_options(options, message):
    with pytest.raises(ServingError) as caught:
        tls_parameters(options)
    assert str(caught.value) == message


def test_warnings_for_insecure_and_missing_suites(caplog):
    wanted = ["TLS_RSA_WITH_AES_128_CBC_SHA", "TLS_RSA_WITH_RC4_128_SHA", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"]
    parameters = tls_parameters(TlsOptions(cipher_suites=wanted, curves=[23, 9]))
    assert parameters.ciphers == b"AES128-SHA:ECDHE-RSA-AES128-GCM-SHA256"
    assert parameters.curves == b"P-256"
    assert [record.getMessage() for record in caplog.records] == [
        "Use of insecure cipher 'TLS_RSA_WITH_AES_128_CBC_SHA' detected.",
        "Use of insecure cipher 'TLS_RSA_WITH_RC4_128_SHA' detected.",
        "OpenSSL lacks some of the cipher suites asked for, they are left out: TLS_RSA_WITH_RC4_128_SHA",
        "OpenSSL lacks some of the curves asked for, they are left out: 9",
    ]


def test_the_order_of_curves_is_ours():
    assert tls_parameters(TlsOptions(curves=[23, 29, 4588, 24])).curves == b"X25519MLKEM768:X25519:P-256:P-384"


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (23, b"P-256"),
        (24, b"P-384"),
        (25, b"P-521"),
        (29, b"X25519"),
        (4587, b"SecP256r1MLKEM768"),
        (4588, b"X25519MLKEM768"),
        (4589, b"SecP384r1MLKEM1024"),
    ],
)
def test_curves_have_the_numbers_that_go_gives_them(number, name):
    assert tls_parameters(TlsOptions(curves=[number])).curves == name


def _every_suite():
    preferred = [
        f"TLS_ECDHE_{key}_WITH_{cipher}"
        for key in ("ECDSA", "RSA")
        for cipher in (
            "AES_128_CBC_SHA",
            "AES_128_GCM_SHA256",
            "AES_256_CBC_SHA",
            "AES_256_GCM_SHA384",
            "CHACHA20_POLY1305",
            "CHACHA20_POLY1305_SHA256",
        )
    ]
    return preferred


@pytest.mark.parametrize("name", _every_suite())
def test_every_preferred_suite_is_available(name, caplog):
    parameters = tls_parameters(TlsOptions(cipher_suites=[name]))
    context = SSL.Context(SSL.TLS_SERVER_METHOD)
    parameters.apply_to(context)
    assert parameters.ciphers.decode() in SSL.Connection(context, None).get_cipher_list()
    assert caplog.records == []


async def agreed(tls, **client):
    """(version, cipher) that a server and a client negotiate."""
    context = trusting()
    if "ciphers" in client:
        context.set_ciphers(client["ciphers"])
    if "version" in client:
        context.minimum_version = context.maximum_version = client["version"]
    async with (
        secure_server(PAGES, settings=with_settings(tls=tls)) as server,
        await connected(server, tls=context) as connection,
    ):
        assert (await connection.ask("/healthz"))[0] == 200
        ssl_object = connection.writer.get_extra_info("ssl_object")
        return ssl_object.version(), ssl_object.cipher()[0]


V12, V13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
GCM = TlsOptions(cipher_suites=["TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"])


async def test_the_newest_version_is_negotiated():
    assert (await agreed(TlsOptions()))[0] == "TLSv1.3"
    assert (await agreed(TlsOptions(), version=V12))[0] == "TLSv1.2"


async def test_only_configured_suites():
    assert await agreed(GCM, version=V12) == ("TLSv1.2", "ECDHE-ECDSA-AES256-GCM-SHA384")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await agreed(GCM, version=V12, ciphers="ECDHE-ECDSA-AES128-GCM-SHA256")


async def test_self_made_certificates_support_rsa_suites():
    tls = TlsOptions(cipher_suites=["TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"])
    context = trusting()
    context.maximum_version = V12
    async with (
        secure_server(PAGES, settings=with_settings(tls=tls, certificate=None)) as server,
        await connected(server, tls=context) as client,
    ):
        assert client.writer.get_extra_info("ssl_object").cipher()[0] == "ECDHE-RSA-AES256-GCM-SHA384"


async def test_suites_of_tls_1_3_are_always_on():
    assert (await agreed(GCM, version=V13))[0] == "TLSv1.3"


@pytest.mark.parametrize(
    "options",
    [
        TlsOptions(min_version="VersionTLS13"),
        # None of them is for TLS 1.2.
        TlsOptions(cipher_suites=["TLS_AES_128_GCM_SHA256"]),
    ],
)
async def test_only_the_newest_version(options):
    assert (await agreed(options))[0] == "TLSv1.3"
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await agreed(options, version=V12)


async def test_old_versions_are_off_by_default():
    context = trusting()
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="deprecated"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.warns(DeprecationWarning, match="deprecated"):
        context.minimum_version = ssl.TLSVersion.TLSv1
    async with secure_server(PAGES) as server:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await connected(server, tls=context)
    settings = with_settings(tls=TlsOptions(min_version="VersionTLS10"))
    async with secure_server(PAGES, settings=settings) as server, await connected(server, tls=context) as client:
        assert client.writer.get_extra_info("ssl_object").version() == "TLSv1.1"


async def test_only_http_1_1_is_offered():
    context = trusting()
    context.set_alpn_protocols(["h2", "http/1.1"])
    async with secure_server(PAGES) as server, await connected(server, tls=context) as client:
        assert client.writer.get_extra_info("ssl_object").selected_alpn_protocol() == "http/1.1"


@pytest.mark.parametrize(
    ("curves", "client", "fits"),
    [([23], "prime256v1", True), ([24], "prime256v1", False), ([23, 24], "secp384r1", True)],
)
async def test_only_configured_curves(curves, client, fits):
    context = trusting()
    context.set_ecdh_curve(client)
    async with secure_server(PAGES, settings=with_settings(tls=TlsOptions(curves=curves))) as server:
        if fits:
            async with await connected(server, tls=context) as connection:
                assert (await connection.ask("/healthz"))[0] == 200
        else:
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await connected(server, tls=context)
