"""Certificates of the secure port: self-made, saved, given, selected by name, and replaced at run time."""

import datetime
import ipaddress
import logging
import os
import shutil

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from stowplan.net.serving.requests.health import HealthChecks
from stowplan.net.serving.secure_server import Listener
from stowplan.net.serving.serving_error import ServingError
from stowplan.net.serving.tls.certificates import KeyPair
from stowplan.net.serving.tls.key_pairs import CertificateFiles, generated_identity, read_identity
from support.http.certificates import make_ca, make_server_certificate
from support.serving.secure_port import connected, secure_server, with_settings

PAGES = HealthChecks("healthz", {}).pages
CA = make_ca()
NOW = 1_800_000_000.0
USAGES = (
    *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement"),
    *("key_cert_sign", "crl_sign"),
)


def write(folder, *names, common_name=None):
    """A pair in a folder of its own."""
    made = make_server_certificate(CA, list(names), common_name=common_name)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tls.crt").write_bytes(made.certificate + CA.certificate)
    (folder / "tls.key").write_bytes(made.key)
    return CertificateFiles(certificate=str(folder / "tls.crt"), key=str(folder / "tls.key"))


async def shown(server, name=None):
    """The subject of the certificate that a client gets."""
    async with await connected(server, name=name) as client:
        certificate = x509.load_der_x509_certificate(client.certificate)
        assert (await client.ask("/healthz"))[2] == b"ok"
    alternatives = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return ",".join(alternatives.get_values_for_type(x509.DNSName))


# Self-made


def test_a_self_made_certificate(caplog):
    caplog.set_level(logging.INFO)
    identity = generated_identity("", bind_address="10.0.0.7", wall_clock=lambda: NOW).identity
    leaf, authority = identity.certificates
    leaf.verify_directly_issued_by(authority)
    assert leaf.subject.rfc4514_string() == f"CN=localhost@{int(NOW)}"
    assert leaf.issuer.rfc4514_string() == f"CN=localhost-ca@{int(NOW)}"
    alternatives = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert alternatives.get_values_for_type(x509.DNSName) == ["localhost"]
    assert alternatives.get_values_for_type(x509.IPAddress) == [
        ipaddress.ip_address("127.0.0.1"),
        ipaddress.ip_address("10.0.0.7"),
    ]
    now = datetime.datetime.fromtimestamp(NOW, datetime.UTC)
    assert leaf.not_valid_before_utc == now - datetime.timedelta(hours=1)
    assert leaf.not_valid_after_utc == now + datetime.timedelta(days=365, hours=-1)
    assert [record.getMessage() for record in caplog.records] == ["Generated self-signed cert in-memory"]


def test_usages_of_a_self_made_certificate():
    leaf, authority = generated_identity("", bind_address="10.0.0.7", wall_clock=lambda: NOW).identity.certificates
    assert _uses(leaf) == {
        "BasicConstraints": (True, (False, None)),
        "KeyUsage": (True, ["digital_signature", "key_encipherment"]),
        "ExtendedKeyUsage": (False, ["serverAuth"]),
    }
    assert _uses(authority) == {
        "BasicConstraints": (True, (True, None)),
        "KeyUsage": (True, ["digital_signature", "key_cert_sign", "crl_sign"]),
    }
    for kind, is_critical in ((x509.SubjectAlternativeName, False), (x509.AuthorityKeyIdentifier, False)):
        assert leaf.extensions.get_extension_for_class(kind).critical is is_critical


def _uses(certificate):
    """By kind: whether it is critical, and its value."""
    words = {
        x509.BasicConstraints: lambda value: (value.ca, value.path_length),
        x509.KeyUsage: lambda value: [name for name in USAGES if getattr(value, name)],
        x509.ExtendedKeyUsage: lambda value: [oid._name for oid in value],
    }
    return {
        type(each.value).__name__: (each.critical, words[type(each.value)](each.value))
        for each in certificate.extensions
        if type(each.value) in words
    }


def test_all_addresses_add_none():
    leaf = generated_identity("", bind_address="0.0.0.0", wall_clock=lambda: NOW).identity.certificates[0]
    alternatives = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert len(alternatives) == 2


def test_a_self_made_pair_is_saved_and_reused(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    folder = tmp_path / "certs"
    first = generated_identity(str(folder), bind_address="0.0.0.0", wall_clock=lambda: NOW).identity
    again = generated_identity(str(folder), bind_address="0.0.0.0", wall_clock=lambda: NOW).identity
    assert again.certificates == first.certificates
    assert {path.name: oct(path.stat().st_mode & 0o777) for path in folder.iterdir()} == {
        "kube-scheduler.crt": "0o644",
        "kube-scheduler.key": "0o600",
    }
    certificate, key = folder / "kube-scheduler.crt", folder / "kube-scheduler.key"
    assert [record.getMessage() for record in caplog.records] == [f"Generated self-signed cert ({certificate}, {key})"]


def test_an_incomplete_pair_is_replaced(tmp_path):
    (tmp_path / "kube-scheduler.crt").write_bytes(CA.certificate)
    with pytest.raises(ServingError) as caught:
        generated_identity(str(tmp_path), bind_address="0.0.0.0", wall_clock=lambda: NOW)
    assert str(caught.value) == (
        f"error creating self-signed certificates: error reading {tmp_path / 'kube-scheduler.key'}, "
        "certificate and key must be supplied as a pair"
    )


# Given


def _broken(folder, what):
    files = write(folder, "a.test")
    other = make_server_certificate(CA, ["b.test"])
    if what == "empty":
        (folder / "tls.crt").write_bytes(b"")
    elif what == "no certificate":
        (folder / "tls.crt").write_bytes(b"hello")
    elif what == "broken certificate":
        (folder / "tls.crt").write_bytes(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    elif what == "no key":
        (folder / "tls.key").write_bytes(b"hello")
    elif what == "broken key":
        (folder / "tls.key").write_bytes(b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
    elif what == "locked key":
        key = serialization.load_pem_private_key(other.key, password=None)
        locked = serialization.BestAvailableEncryption(b"x")
        form = serialization.PrivateFormat.PKCS8
        (folder / "tls.key").write_bytes(key.private_bytes(serialization.Encoding.PEM, form, locked))
    elif what == "other key":
        (folder / "tls.key").write_bytes(other.key)
    return files


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("empty", 'missing content for serving cert "serving-cert::{crt}::{key}"'),
        ("no certificate", "tls: failed to find any PEM data in certificate input"),
        ("broken certificate", "tls: failed to parse certificate: "),
        ("no key", "tls: failed to find any PEM data in key input"),
        ("broken key", "tls: failed to parse private key"),
        ("locked key", "tls: failed to parse private key"),
        ("other key", "tls: private key does not match public key"),
    ],
)
def test_unusable_pairs(what, message, tmp_path):
    files = _broken(tmp_path / "pair", what)
    listener = Listener(with_settings(certificate=files), wall_clock=lambda: NOW)
    with pytest.raises(ServingError) as caught:
        listener.open()
    assert str(caught.value).startswith(message.format(crt=files.certificate, key=files.key))
    assert not listener.is_open


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        pytest.param(
            {"certificate": CertificateFiles(certificate="/nope", key="/nope")},
            "open /nope: no such file or directory",
            id="no file",
        ),
        pytest.param(
            {"certificate": CertificateFiles(certificate="/nope", key="")},
            "missing filename for serving cert",
            id="no key's name",
        ),
        pytest.param(
            {"named_certificates": [CertificateFiles(certificate="/nope", key="/nope")]},
            "failed to load SNI cert and key: open /nope: no such file or directory",
            id="no file of a named one",
        ),
    ],
)
def test_missing_files(settings, message):
    with pytest.raises(ServingError) as caught:
        Listener(with_settings(**settings), wall_clock=lambda: NOW).open()
    assert str(caught.value) == message


async def test_an_expired_certificate_is_served_with_a_warning(tmp_path, caplog):
    files = write(tmp_path, "a.test")
    listener = Listener(with_settings(certificate=files), wall_clock=lambda: 5_000_000_000)
    async with secure_server(PAGES, listener=listener) as server:
        assert await shown(server) == "a.test"
    assert f"The serving certificate {files.certificate} expired at 2120-01-01T00:00:00Z" in caplog.text


async def test_a_certificate_that_is_not_yet_valid_is_served_with_a_warning(tmp_path, caplog):
    files = write(tmp_path, "a.test")
    listener = Listener(with_settings(certificate=files), wall_clock=lambda: 0)
    async with secure_server(PAGES, listener=listener) as server:
        assert await shown(server) == "a.test"
    (told,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert told.startswith(f"The serving certificate {files.certificate} is valid from ")


# Replaced


async def test_a_pair_is_replaced_by_writing_its_files(tmp_path):
    files = write(tmp_path / "pair", "old.test")
    settings = with_settings(certificate=files)
    async with secure_server(PAGES, settings=settings) as server, await connected(server) as before:
        assert await shown(server) == "old.test"
        write(tmp_path / "pair", "new.test")
        assert await shown(server) == "new.test"
        # An open connection keeps its certificate.
        assert (await before.ask("/healthz"))[0] == 200


async def test_a_mounted_secret_is_replaced_by_a_symlink(tmp_path):
    write(tmp_path / "..1", "old.test")
    write(tmp_path / "..2", "new.test")
    (tmp_path / "..data").symlink_to("..1")
    for name in ("tls.crt", "tls.key"):
        (tmp_path / name).symlink_to(f"..data/{name}")
    files = CertificateFiles(certificate=str(tmp_path / "tls.crt"), key=str(tmp_path / "tls.key"))
    async with secure_server(PAGES, settings=with_settings(certificate=files)) as server:
        assert await shown(server) == "old.test"
        (tmp_path / "..tmp").symlink_to("..2")
        os.replace(tmp_path / "..tmp", tmp_path / "..data")
        shutil.rmtree(tmp_path / "..1")
        assert await shown(server) == "new.test"


@pytest.mark.parametrize("what", ["broken certificate", "other key"])
async def test_an_invalid_new_pair_is_reported_once_and_the_old_one_is_kept(what, tmp_path, caplog):
    files = write(tmp_path / "pair", "old.test")
    async with secure_server(PAGES, settings=with_settings(certificate=files)) as server:
        _broken(tmp_path / "pair", what)
        for _ in range(3):
            assert await shown(server) == "old.test"
        told = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
        assert len(told) == 1
        assert files.certificate in told[0]
        assert "PRIVATE" not in caplog.text
        write(tmp_path / "pair", "new.test")
        assert await shown(server) == "new.test"


async def test_files_that_disappear_and_return(tmp_path, caplog):
    files = write(tmp_path / "pair", "old.test")
    async with secure_server(PAGES, settings=with_settings(certificate=files)) as server:
        shutil.rmtree(tmp_path / "pair")
        assert await shown(server) == await shown(server) == "old.test"
        assert caplog.text.count("the one before stays in use") == 1
        write(tmp_path / "pair", "new.test")
        assert await shown(server) == "new.test"


async def test_the_certificate_before_its_key(tmp_path):
    files = write(tmp_path / "pair", "old.test")
    write(tmp_path / "next", "new.test")
    async with secure_server(PAGES, settings=with_settings(certificate=files)) as server:
        shutil.copy(tmp_path / "next/tls.crt", files.certificate)
        assert await shown(server) == "old.test"
        shutil.copy(tmp_path / "next/tls.key", files.key)
        assert await shown(server) == "new.test"


# Selected by name


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        pytest.param(None, "default.test", id="no name"),
        pytest.param("nobody.test", "default.test", id="unknown name"),
        pytest.param("default.test", "default.test", id="the default's name"),
        pytest.param("own.test", "own.test,*.own.test", id="name in the certificate"),
        pytest.param("OWN.test", "own.test,*.own.test", id="case does not count"),
        pytest.param("a.own.test", "own.test,*.own.test", id="wildcard in the certificate"),
        pytest.param("a.b.own.test", "default.test", id="a wildcard is one label"),
        pytest.param("common", "named.test", id="common name"),
        pytest.param("given.test", "hidden.test", id="given name"),
        pytest.param("hidden.test", "default.test", id="given names replace those inside"),
        pytest.param("x.own.test", "hidden.test", id="a given name wins over a wildcard inside"),
        pytest.param("twice.test", "twice.test", id="the first of two wins"),
    ],
)
async def test_names(asked, expected, tmp_path):
    given = write(tmp_path / "given", "hidden.test")
    settings = with_settings(
        certificate=write(tmp_path / "default", "default.test"),
        named_certificates=[
            write(tmp_path / "own", "own.test", "*.own.test"),
            write(tmp_path / "named", "named.test", common_name="common"),
            CertificateFiles(certificate=given.certificate, key=given.key, names=("given.test", "X.own.test")),
            write(tmp_path / "twice", "twice.test", common_name="first"),
            write(tmp_path / "again", "twice.test", "again.test", common_name="second"),
        ],
    )
    async with secure_server(PAGES, settings=settings) as server:
        assert await shown(server, asked) == expected


@pytest.mark.parametrize(
    ("common_name", "names"),
    [
        ("a.test", ["a.test", "alternative.test"]),
        ("*.test", ["*.test", "alternative.test"]),
        ("*", ["*", "alternative.test"]),
        ("10.0.0.7", ["alternative.test"]),
        ("Somebody's certificate", ["alternative.test"]),
    ],
)
def test_common_names_that_are_host_names(common_name, names):
    made = make_server_certificate(CA, ["alternative.test"], common_name=common_name)
    assert read_identity(KeyPair(made.certificate, made.key)).own_names == names


async def test_a_named_pair_is_replaced_too(tmp_path):
    settings = with_settings(named_certificates=[write(tmp_path / "one", "one.test", "both.test")])
    async with secure_server(PAGES, settings=settings) as server:
        assert await shown(server, "both.test") == "one.test,both.test"
        write(tmp_path / "one", "two.test", "both.test")
        assert await shown(server, "both.test") == "two.test,both.test"
        assert await shown(server, "one.test") == "localhost"


async def test_without_a_name_the_address_decides(tmp_path):
    """Clients that connect by address send no server name."""
    pair = write(tmp_path, "address.test")
    named = CertificateFiles(certificate=pair.certificate, key=pair.key, names=("127.0.0.1",))
    async with secure_server(PAGES, settings=with_settings(named_certificates=[named])) as server:
        assert await shown(server) == "address.test"
        assert await shown(server, "nobody.test") == "localhost"


def test_keys_are_not_shown(tmp_path):
    pair = KeyPair(b"certificate", b"s3cret")
    assert "s3cret" not in repr(pair)
    made = generated_identity("", bind_address="0.0.0.0", wall_clock=lambda: NOW).identity
    assert "key" not in repr(made).replace("KeyU", "")
