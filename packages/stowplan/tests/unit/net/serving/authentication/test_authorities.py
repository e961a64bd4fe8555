"""Bundles of certificate authorities, and reloading their files."""

import os

import pytest

from stowplan.net.serving.authentication.authorities import AuthoritiesFile, Bundle, BundleError, parse_bundle
from support.http.client_chains import authority

ONE, OTHER = authority("one"), authority("other")


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.mark.parametrize(
    ("pem", "names"),
    [
        pytest.param(ONE.pem, ["one"], id="one"),
        pytest.param(ONE.pem + b"\n# a comment\n" + OTHER.pem, ["one", "other"], id="two, with a comment"),
        pytest.param(ONE.key_pem + ONE.pem, ["one"], id="beside its key"),
        pytest.param(ONE.pem + OTHER.pem[:100], ["one"], id="cut off in the second"),
        pytest.param(ONE.pem.replace(b"\n", b"\r\n"), ["one"], id="with the ends of lines of another system"),
    ],
)
def test_bundles(pem, names):
    found = parse_bundle(pem, name="a bundle")
    assert [one.subject.rfc4514_string() for one in found] == [f"CN={name}" for name in names]


NO_DATA = 'error loading CA bundle for "p::f": data does not contain any valid RSA or ECDSA certificates'


@pytest.mark.parametrize(
    ("pem", "why"),
    [
        pytest.param(b"", 'missing content for CA bundle "p::f"', id="empty"),
        pytest.param(b"garbage", NO_DATA, id="garbage"),
        pytest.param(b"\0\xff" * 100, NO_DATA, id="bytes"),
        pytest.param(ONE.key_pem, NO_DATA, id="a key"),
        pytest.param(
            b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            'error loading CA bundle for "p::f": x509: ',
            id="no certificate inside",
        ),
    ],
)
def test_invalid_bundles(pem, why):
    with pytest.raises(BundleError) as caught:
        parse_bundle(pem, name="p::f")
    assert str(caught.value).startswith(why)


def test_an_invalid_bundle_keeps_the_previous_one():
    bundle = Bundle("b")
    assert bundle.current() == ()
    bundle.load(ONE.pem)
    before = bundle.current()
    with pytest.raises(BundleError):
        bundle.load(b"garbage")
    assert bundle.current() is before
    bundle.load(ONE.pem)
    assert bundle.current() is before
    bundle.load(OTHER.pem)
    assert bundle.current() != before


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "ca.crt"
    path.write_bytes(ONE.pem)
    return path


def names(file):
    return [one.subject.rfc4514_string() for one in file.current()]


def test_a_changed_file_is_reloaded(path, clock, caplog):
    file = AuthoritiesFile(str(path), purpose="client-ca-bundle", clock=clock)
    assert names(file) == ["CN=one"]
    path.write_bytes(OTHER.pem)
    clock.now += 1.1
    assert names(file) == ["CN=other"]
    assert not caplog.records


def test_a_mounted_secret_is_replaced_by_a_symlink(tmp_path, clock):
    for name, issued in (("a", ONE), ("b", OTHER)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "ca.crt").write_bytes(issued.pem)
    (tmp_path / "data").symlink_to(tmp_path / "a")
    file = AuthoritiesFile(str(tmp_path / "data" / "ca.crt"), purpose="request-header", clock=clock)
    assert names(file) == ["CN=one"]
    (tmp_path / "new").symlink_to(tmp_path / "b")
    os.replace(tmp_path / "new", tmp_path / "data")
    clock.now += 1.1
    assert names(file) == ["CN=other"]


@pytest.mark.parametrize("broken", [b"", b"garbage", None], ids=["empty", "garbage", "gone"])
def test_an_invalid_file_is_reported_once_and_the_previous_bundle_is_kept(path, clock, caplog, broken):
    file = AuthoritiesFile(str(path), purpose="client-ca-bundle", clock=clock)
    if broken is None:
        path.unlink()
    else:
        path.write_bytes(broken)
    for _ in range(3):
        clock.now += 1.1
        assert names(file) == ["CN=one"]
    assert len(caplog.records) == 1
    assert str(path) in caplog.text
    path.write_bytes(OTHER.pem)
    clock.now += 1.1
    assert names(file) == ["CN=other"]


def test_the_file_must_exist_at_the_start(tmp_path, clock):
    missing = tmp_path / "nope"
    with pytest.raises(BundleError) as caught:
        AuthoritiesFile(str(missing), purpose="client-ca-bundle", clock=clock)
    assert str(caught.value) == f"open {missing}: no such file or directory"
    missing.write_bytes(b"")
    with pytest.raises(BundleError) as caught:
        AuthoritiesFile(str(missing), purpose="client-ca-bundle", clock=clock)
    assert str(caught.value) == f'missing content for CA bundle "client-ca-bundle::{missing}"'
    with pytest.raises(BundleError, match="is a directory"):
        AuthoritiesFile(str(tmp_path), purpose="client-ca-bundle", clock=clock)
