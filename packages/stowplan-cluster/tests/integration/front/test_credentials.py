"""The front's self-made certificates, and the kubeconfig that contains one of them."""

from __future__ import annotations

import base64
import os
import ssl
import stat
import subprocess
import sys

import pytest
import yaml
from cryptography import x509

from stowplan.net.serving.tls.certificates import write_private
from stowplan_cluster.front.credentials import Certificates, certificates_for, is_ours, kubeconfig, write_kubeconfig

NOW = 1_800_000_000.0
DAY = 86_400.0


def at(seconds: float):
    return lambda: seconds


def names_in(certificates: Certificates) -> set[str]:
    certificate = x509.load_pem_x509_certificate(certificates.certificate)
    alternatives = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {str(name.value) for name in alternatives}


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", {"127.0.0.1", "localhost"}),
        ("10.1.2.3", {"10.1.2.3", "127.0.0.1", "localhost"}),
        ("::1", {"::1", "127.0.0.1", "localhost"}),
        ("api.example.com", {"api.example.com", "127.0.0.1", "localhost"}),
    ],
)
def test_the_certificate_covers_the_host(host, expected):
    made = certificates_for(host, directory=None, clock=at(NOW))
    assert names_in(made) == expected


def test_the_certificate_is_signed_by_the_authority():
    made = certificates_for("127.0.0.1", directory=None, clock=at(NOW))
    ca = x509.load_pem_x509_certificate(made.ca_certificate)
    x509.load_pem_x509_certificate(made.certificate).verify_directly_issued_by(ca)
    assert isinstance(made.server_context(), ssl.SSLContext)


def test_keys_are_not_shown():
    made = certificates_for("127.0.0.1", directory=None, clock=at(NOW))
    assert "PRIVATE" not in repr(made)


def test_saved_certificates_are_reused(tmp_path):
    directory = tmp_path / "state"
    first = certificates_for("127.0.0.1", directory=directory, clock=at(NOW))
    assert certificates_for("127.0.0.1", directory=directory, clock=at(NOW + 100 * DAY)) == first
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    modes = {stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()}
    assert modes == {0o600}


@pytest.mark.parametrize(
    ("host", "days"),
    [("127.0.0.1", 340), ("127.0.0.1", 500), ("127.0.0.1", -10), ("other.example.com", 0)],
    ids=["nearly expired", "expired", "not yet valid", "another host"],
)
def test_unusable_certificates_are_replaced(tmp_path, host, days):
    first = certificates_for("127.0.0.1", directory=tmp_path, clock=at(NOW))
    second = certificates_for(host, directory=tmp_path, clock=at(NOW + days * DAY))
    assert second != first
    assert certificates_for(host, directory=tmp_path, clock=at(NOW + days * DAY)) == second


@pytest.mark.parametrize("name", ["ca.crt", "ca.key", "tls.crt", "tls.key"])
@pytest.mark.parametrize("content", [None, b"", b"garbage"], ids=["missing", "empty", "garbage"])
def test_damaged_files_are_replaced(tmp_path, name, content):
    first = certificates_for("127.0.0.1", directory=tmp_path, clock=at(NOW))
    if content is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_bytes(content)
    second = certificates_for("127.0.0.1", directory=tmp_path, clock=at(NOW))
    # The authority's key is needed only to create certificates.
    if name != "ca.key" or content is None:
        assert second.certificate != first.certificate
        assert certificates_for("127.0.0.1", directory=tmp_path, clock=at(NOW)) == second
    second.server_context()


def test_a_key_that_does_not_match_is_replaced(tmp_path):
    first = certificates_for("127.0.0.1", directory=tmp_path, clock=at(NOW))
    other = certificates_for("127.0.0.1", directory=None, clock=at(NOW))
    (tmp_path / "tls.key").write_bytes(other.key)
    assert certificates_for("127.0.0.1", directory=tmp_path, clock=at(NOW)).certificate != first.certificate


def test_a_self_signed_server_certificate_is_replaced(tmp_path):
    """The certificate is self-signed and has no host name."""
    certificates_for("127.0.0.1", directory=tmp_path, clock=at(NOW))
    for kind in ("crt", "key"):
        (tmp_path / f"tls.{kind}").write_bytes((tmp_path / f"ca.{kind}").read_bytes())
    assert names_in(certificates_for("127.0.0.1", directory=tmp_path, clock=at(NOW))) == {"127.0.0.1", "localhost"}


def test_a_failed_write_keeps_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_private(path, b"old")

    def full(_descriptor):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="disk full"):
        write_private(path, b"new")
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_the_kubeconfig_is_private_and_complete(tmp_path):
    path = tmp_path / "new" / "kubeconfig"
    write_kubeconfig(path, kubeconfig("https://127.0.0.1:1", token="secret", ca_certificate=b"PEM"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    told = yaml.safe_load(path.read_text())
    assert told["current-context"] == "stowplan"
    assert told["contexts"] == [{"name": "stowplan", "context": {"cluster": "stowplan", "user": "stowplan"}}]
    cluster = told["clusters"][0]["cluster"]
    assert cluster["server"] == "https://127.0.0.1:1"
    assert base64.b64decode(cluster["certificate-authority-data"]) == b"PEM"
    assert told["users"][0]["user"] == {"token": "secret"}


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff", b"[", b"[]", b"clusters: 5", b"current-context: stowplan", b"{clusters: [{name: prod}]}"],
)
def test_kubeconfigs_of_other_tools_are_recognized(tmp_path, content):
    path = tmp_path / "kubeconfig"
    assert not is_ours(path)
    path.write_bytes(content)
    assert not is_ours(path)
    write_kubeconfig(path, kubeconfig("https://127.0.0.1:1", token="secret", ca_certificate=None))
    assert is_ours(path)


def test_without_tls_the_kubeconfig_has_no_authority():
    told = kubeconfig("http://127.0.0.1:1", token="secret", ca_certificate=None)
    assert told["clusters"][0]["cluster"] == {"server": "http://127.0.0.1:1"}


def test_cryptography_is_imported_only_to_create_certificates():
    code = "import sys, stowplan_cluster.front.credentials as c; assert 'cryptography' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
