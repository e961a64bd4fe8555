"""Authentication headers: fixed, from a token file that rotates, and impersonation."""

import logging

import pytest

from stowplan.net.client.client_errors import CredentialsError
from stowplan.net.client.credentials.request_credentials import (
    FixedAuthorization,
    TokenFile,
    UserCredentials,
    bearer,
    is_sendable,
)
from stowplan.net.client.endpoint.file_content import FileContent
from stowplan.net.client.endpoint.tls import CertificatePair
from support.http.kubeconfigs import Clock


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "token"
    path.write_text("one\n")
    return path


def token_file(path, clock, **options):
    return TokenFile(str(path), where='config: user "u": tokenFile', clock=clock, **options)


async def test_anonymous_sends_nothing():
    credentials = UserCredentials()
    assert dict(await credentials.headers()) == {}
    assert await credentials.refused() is False
    assert credentials.client_certificate() is None


async def test_a_fixed_token_cannot_be_refreshed():
    credentials = UserCredentials(FixedAuthorization(bearer("t")))
    assert dict(await credentials.headers()) == {"Authorization": "Bearer t"}
    assert await credentials.refused() is False


@pytest.mark.parametrize(("token", "fits"), [("a.b-c_d==", True), ("a b", False), ("a\n", False), ("a\x7f", False)])
def test_valid_header_values(token, fits):
    assert is_sendable(token) is fits


async def test_headers_are_built_once_for_one_token(path, clock):
    credentials = UserCredentials(token_file(path, clock))
    first = await credentials.headers()
    assert await credentials.headers() is first


# --- token files


@pytest.mark.parametrize(("seconds", "token"), [(0, "one"), (49.9, "one"), (50, "two")])
async def test_a_token_file_is_read_again(path, clock, seconds, token):
    credentials = UserCredentials(token_file(path, clock))
    await credentials.headers()
    path.write_text("two")
    clock.advance(seconds)
    assert (await credentials.headers())["Authorization"] == f"Bearer {token}"


async def test_a_refused_token_is_read_again_at_once(path, clock):
    credentials = UserCredentials(token_file(path, clock))
    used = await credentials.headers()
    assert await credentials.refused(used) is False, "the file still has the same token"
    path.write_text("two")
    assert await credentials.refused(used) is True
    assert (await credentials.headers())["Authorization"] == "Bearer two"


async def test_a_late_refusal_of_an_old_token_does_not_read_again(path, clock):
    credentials = UserCredentials(token_file(path, clock))
    used = await credentials.headers()
    path.write_text("two")
    assert await credentials.refused(used)
    path.write_text("three")
    assert await credentials.refused(used) is True
    assert (await credentials.headers())["Authorization"] == "Bearer two"


async def test_refused_without_headers_refers_to_the_last_ones(path, clock):
    credentials = UserCredentials(token_file(path, clock))
    await credentials.headers()
    assert await credentials.refused() is False
    path.write_text("two")
    assert await credentials.refused() is True


@pytest.mark.parametrize("text", [None, "", " \n", "two words", "\udcff"], ids=repr)
async def test_a_token_stays_in_use_while_its_file_is_broken(path, clock, caplog, text):
    credentials = UserCredentials(token_file(path, clock))
    await credentials.headers()
    if text is None:
        path.unlink()
    else:
        path.write_bytes(text.encode(errors="surrogateescape"))
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            clock.advance(60)
            assert (await credentials.headers())["Authorization"] == "Bearer one"
    assert len(caplog.records) == 1, "logged once, not for every request"
    path.write_text("two")
    clock.advance(1)
    assert (await credentials.headers())["Authorization"] == "Bearer two"
    path.unlink()
    clock.advance(60)
    with caplog.at_level(logging.WARNING):
        await credentials.headers()
    assert len(caplog.records) == 2, "logged again after it had worked"


async def test_a_token_file_wins_over_the_token_once_it_can_be_read(tmp_path, clock):
    credentials = UserCredentials(token_file(tmp_path / "later", clock, fallback="from-token"))
    assert (await credentials.headers())["Authorization"] == "Bearer from-token"
    (tmp_path / "later").write_text("from-file")
    clock.advance(1)
    assert (await credentials.headers())["Authorization"] == "Bearer from-file"


async def test_no_token_at_all(tmp_path, clock):
    credentials = UserCredentials(token_file(tmp_path / "nope", clock))
    with pytest.raises(CredentialsError) as caught:
        await credentials.headers()
    assert str(caught.value) == f'config: user "u": tokenFile: open {tmp_path}/nope: no such file or directory'


def test_tokens_are_not_in_reprs(path, clock):
    source = token_file(path, clock)
    assert source.token() == "one"
    shown = repr([source, UserCredentials(source), UserCredentials(FixedAuthorization("Bearer secret"))])
    assert "one" not in shown
    assert "secret" not in shown


# --- certificates in files


def test_a_certificate_follows_its_files(tmp_path, clock):
    for name in ("crt", "key"):
        (tmp_path / name).write_text(name)
    pair = CertificatePair(
        certificate=FileContent(str(tmp_path / "crt"), where="cfg: client-certificate", clock=clock),
        key=FileContent(str(tmp_path / "key"), where="cfg: client-key", clock=clock),
    )
    credentials = UserCredentials(certificate=pair)
    before = credentials.client_certificate()
    clock.advance(5)
    assert credentials.client_certificate() is before
    (tmp_path / "crt").write_text("new")
    assert credentials.client_certificate() is before, "files are checked once a second"
    clock.advance(1)
    certificate = credentials.client_certificate()
    assert (certificate.certificate, certificate.key) == (b"new", b"key")
    assert certificate.where == f"cfg: client-certificate {tmp_path}/crt and client-key {tmp_path}/key"
