"""Whose a client certificate is, and which ones are nobody's."""

import asyncio
import datetime
import threading

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict, CIMultiDictProxy
from OpenSSL._util import lib

from stowplan.kube.metrics.registry import MetricsRegistry
from stowplan.kube.metrics.serving import ServingMetrics
from stowplan.kube.timing.times import START
from stowplan.net.serving.authentication import client_certificates
from stowplan.net.serving.authentication.client_certificates import (
    CREDENTIAL_ID,
    MAX_PRESENTED,
    UID,
    UNKNOWN_AUTHORITY,
    WRONG_USAGE,
    ClientCertificates,
    parsed,
    verify,
    verify_in_thread,
)
from stowplan.net.serving.user import Peer, Rejected
from support.http.client_chains import (
    ANY,
    CLIENT_AUTH,
    DAY,
    NOW,
    SERVER_AUTH,
    TrustedAuthorities,
    authority,
    client,
    issue,
    name_of,
)

NO_HEADERS = CIMultiDictProxy(CIMultiDict())
ROOT = authority("root")
LINK = authority("link", ROOT)
OTHER_ROOT = authority("root")  # of the same name, with another key
FOR_SERVERS = authority("for servers", ROOT, usages=[SERVER_AUTH])
NO_CA = issue("no ca", ROOT, ca=False)
SAYS_NOTHING = issue("says nothing", ROOT)
SIGNS = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=False,
    encipher_only=False,
    decipher_only=False,
)
#: OpenSSL takes its key's usage for a claim to be an authority.
ONLY_SIGNS = issue("only signs", ROOT, extensions=[(SIGNS, True)])
SHORT = authority("short", ROOT, path_length=0)
BELOW_SHORT = authority("below short", SHORT)
OLD_LINK = authority("old link", ROOT, begin=NOW - 3 * DAY, end=NOW - DAY)
OLD_ROOT = authority("old root", begin=NOW - 3 * DAY, end=NOW - DAY)
UNKNOWN_CRITICAL = (x509.UnrecognizedExtension(x509.ObjectIdentifier("1.2.3.4.5"), b"\x05\x00"), True)
ONLY_EXAMPLE = (
    x509.NameConstraints(permitted_subtrees=[x509.DNSName("example.com")], excluded_subtrees=None),
    True,
)
CONSTRAINED = authority("constrained", ROOT, extensions=[ONLY_EXAMPLE])
ELSEWHERE = (x509.SubjectAlternativeName([x509.DNSName("elsewhere.org")]), False)


#: ecdsa-with-SHA256 and -SHA1
ALGORITHMS = {
    "sha256": bytes.fromhex("300a06082a8648ce3d040302"),
    "sha1": bytes.fromhex("300906072a8648ce3d0401"),
}


def signed_anew(issued, change, hash_):
    """What ROOT would have signed, had it been asked for something that the library does not make."""
    tbs = issued.certificate.tbs_certificate_bytes
    assert tbs[:2] == b"\x30\x81", "its length is one byte"
    body = change(tbs[3:])
    tbs = sequence(body)
    signature = ROOT.key.sign(tbs, ec.ECDSA(hash_))
    return sequence(tbs + ALGORITHMS[hash_.name] + b"\x03" + bytes([len(signature) + 1, 0]) + signature)


def sequence(body):
    length = bytes([0x81, len(body)]) if len(body) < 256 else b"\x82" + len(body).to_bytes(2)
    return b"\x30" + length + body


def certificates(*trusted, uid_allowed=True, expiration=None):
    return ClientCertificates(
        TrustedAuthorities(*trusted), wall_clock=lambda: START, uid_allowed=uid_allowed, expiration=expiration
    )


async def identified(method, *presented):
    return await method.identify(NO_HEADERS, Peer(tuple(one.der for one in presented)))


@pytest.mark.parametrize(
    ("presented", "trusted"),
    [
        pytest.param([client(ROOT)], [ROOT], id="signed by the authority"),
        pytest.param([client(LINK), LINK], [ROOT], id="by way of a link that is presented"),
        pytest.param([client(LINK), ROOT, LINK], [ROOT], id="links in any order"),
        pytest.param([client(LINK)], [LINK], id="the authority that is believed is no root"),
        pytest.param([client(ROOT)], [OTHER_ROOT, ROOT], id="two authorities of one name, it is the second"),
        pytest.param([client(ROOT)], [ROOT, OTHER_ROOT], id="two authorities of one name, it is the first"),
        pytest.param([client(ROOT), LINK, client(ROOT, "bob")], [ROOT], id="presented with what has nothing to do"),
        pytest.param([client(ROOT, usages=[SERVER_AUTH, CLIENT_AUTH])], [ROOT], id="for clients among other things"),
        pytest.param([client(ROOT, usages=[ANY])], [ROOT], id="for anything"),
        pytest.param([client(ROOT, usages=[])], [ROOT], id="nothing is said about its use"),
        pytest.param([client(ROOT, end=NOW)], [ROOT], id="in its last second"),
        pytest.param([client(ROOT, begin=NOW)], [ROOT], id="in its first second"),
        pytest.param([client(SHORT), SHORT], [ROOT], id="as deep as its authority allows"),
        pytest.param([client(OTHER_ROOT)], [OLD_ROOT, OTHER_ROOT], id="another authority is out of date"),
        pytest.param([issue("alice", ROOT, usages=[CLIENT_AUTH])], [ROOT], id="without constraints"),
        pytest.param([client(CONSTRAINED), CONSTRAINED], [ROOT], id="without names that constraints are about"),
    ],
)
async def test_accepted_certificates(presented, trusted):
    assert (await identified(certificates(*trusted), *presented)).name == "alice"


async def test_a_trusted_certificate_needs_no_issuer():
    own = client(None, "alice")
    assert (await identified(certificates(own), own)).name == "alice"


EXPIRED = "x509: certificate has expired or is not yet valid: current time 2027-01-15T08:00:00Z is "


@pytest.mark.parametrize(
    ("presented", "trusted", "why"),
    [
        pytest.param([client(OTHER_ROOT)], [ROOT], UNKNOWN_AUTHORITY, id="another key behind the authority's name"),
        pytest.param([client(LINK)], [ROOT], UNKNOWN_AUTHORITY, id="the link is not presented"),
        pytest.param([client(None)], [ROOT], UNKNOWN_AUTHORITY, id="signed by itself"),
        pytest.param([client(ROOT, end=NOW - DAY / 2)], [ROOT], EXPIRED + "after 2027-01-14T20:00:00Z", id="expired"),
        pytest.param(
            [client(ROOT, begin=NOW + DAY / 2)], [ROOT], EXPIRED + "before 2027-01-15T20:00:00Z", id="not yet valid"
        ),
        pytest.param([client(OLD_LINK), OLD_LINK], [ROOT], UNKNOWN_AUTHORITY, id="the link is expired"),
        pytest.param([client(OLD_ROOT)], [OLD_ROOT], UNKNOWN_AUTHORITY, id="the authority is expired"),
        pytest.param([client(ROOT, usages=[SERVER_AUTH])], [ROOT], WRONG_USAGE, id="for servers"),
        pytest.param([client(FOR_SERVERS), FOR_SERVERS], [ROOT], WRONG_USAGE, id="the link is for servers"),
        pytest.param([client(FOR_SERVERS)], [FOR_SERVERS], WRONG_USAGE, id="the authority is for servers"),
        pytest.param([client(NO_CA), NO_CA], [ROOT], UNKNOWN_AUTHORITY, id="the link is no authority"),
        pytest.param([client(SAYS_NOTHING), SAYS_NOTHING], [ROOT], UNKNOWN_AUTHORITY, id="the link says nothing of it"),
        pytest.param([client(ONLY_SIGNS), ONLY_SIGNS], [ROOT], UNKNOWN_AUTHORITY, id="the link only has a key to sign"),
        pytest.param([client(NO_CA)], [NO_CA], UNKNOWN_AUTHORITY, id="what is believed is no authority"),
        pytest.param([client(BELOW_SHORT), BELOW_SHORT, SHORT], [ROOT], UNKNOWN_AUTHORITY, id="too deep"),
        pytest.param(
            [client(ROOT, extensions=[UNKNOWN_CRITICAL])], [ROOT], UNKNOWN_AUTHORITY, id="a critical unknown extension"
        ),
        pytest.param(
            [client(CONSTRAINED, extensions=[ELSEWHERE]), CONSTRAINED],
            [ROOT],
            UNKNOWN_AUTHORITY,
            id="a name that its authority may not give",
        ),
        pytest.param([LINK, client(LINK)], [OTHER_ROOT], UNKNOWN_AUTHORITY, id="the client's own comes second"),
    ],
)
async def test_refused_certificates(presented, trusted, why):
    with pytest.raises(Rejected) as caught:
        await identified(certificates(*trusted), *presented)
    identifier = f"verifying certificate SN={presented[0].certificate.serial_number}, SKID=, AKID= failed: "
    assert str(caught.value) == identifier + why


async def test_the_first_certificate_identifies_the_client():
    assert (await identified(certificates(ROOT), client(ROOT, "alice"), client(ROOT, "root"))).name == "alice"


@pytest.mark.parametrize("hash_", [hashes.SHA256(), hashes.SHA1()], ids=lambda hash_: hash_.name)
def test_signatures_with_broken_hashes_are_refused(hash_):
    algorithm = ALGORITHMS[hash_.name]
    der = signed_anew(client(ROOT), lambda tbs: tbs.replace(ALGORITHMS["sha256"], algorithm, 1), hash_)
    if hash_.name == "sha256":
        verify([der], [ROOT.certificate], now=START)
        return
    with pytest.raises(Rejected, match=UNKNOWN_AUTHORITY):
        verify([der], [ROOT.certificate], now=START)


def test_v1_roots_need_no_basic_constraints():
    of_today = issue("root", key=ROOT.key)
    version = bytes.fromhex("a003020102")
    der = signed_anew(of_today, lambda tbs: tbs.removeprefix(version), hashes.SHA256())
    oldest = x509.load_der_x509_certificate(der)
    assert (oldest.version, of_today.certificate.version) == (x509.Version.v1, x509.Version.v3)
    verify([client(ROOT).der], [oldest], now=START)
    with pytest.raises(Rejected, match=UNKNOWN_AUTHORITY):
        verify([client(ROOT).der], [of_today.certificate], now=START)


async def test_the_refusal_names_the_keys():
    identifiers = [
        (x509.SubjectKeyIdentifier(bytes.fromhex("0abb")), False),
        (x509.AuthorityKeyIdentifier(bytes.fromhex("ff01"), None, None), False),
    ]
    with pytest.raises(Rejected, match="SKID=0A:BB, AKID=FF:01 failed"):
        await identified(certificates(ROOT), client(OTHER_ROOT, extensions=identifiers))


# --- who it is


ORGANIZATION, COMMON = NameOID.ORGANIZATION_NAME, NameOID.COMMON_NAME


@pytest.mark.parametrize(
    ("subject", "user", "groups", "uid"),
    [
        pytest.param([(COMMON, "a")], "a", (), "", id="a name"),
        pytest.param(
            [(ORGANIZATION, "x"), (COMMON, "a"), (ORGANIZATION, "y")], "a", ("x", "y"), "", id="organizations"
        ),
        pytest.param([(COMMON, "a"), (COMMON, "b")], "b", (), "", id="two names, the last one counts"),
        pytest.param([(COMMON, "a"), (UID, "7")], "a", (), "7", id="a UID"),
        pytest.param([(COMMON, "system:node:ä 😀")], "system:node:ä 😀", (), "", id="any text"),
    ],
)
async def test_a_subject_is_a_user(subject, user, groups, uid):
    own = client(ROOT)
    presented = issue(name_of(*subject), ROOT, usages=[CLIENT_AUTH])
    found = await identified(certificates(ROOT), presented)
    assert (found.name, found.groups, found.uid) == (user, groups, uid)
    fingerprint = presented.certificate.fingerprint(hashes.SHA256()).hex()
    assert found.extra == {CREDENTIAL_ID: (f"X509SHA256={fingerprint}",)}
    assert own.der != presented.der


@pytest.mark.parametrize(
    ("uids", "why"),
    [
        pytest.param(["7", "8"], "expected 1 UID, but found multiple: [7 8]", id="two"),
        pytest.param([""], "UID cannot be an empty string", id="empty"),
    ],
)
async def test_invalid_uids(uids, why):
    subject = name_of((COMMON, "a"), *((UID, uid) for uid in uids))
    with pytest.raises(Rejected) as caught:
        await identified(certificates(ROOT), issue(subject, ROOT))
    assert str(caught.value) == why


async def test_uids_are_not_read_without_the_gate():
    subject = name_of((COMMON, "a"), (UID, "7"), (UID, "8"))
    assert (await identified(certificates(ROOT, uid_allowed=False), issue(subject, ROOT))).uid == ""


async def test_without_a_name_there_is_no_user():
    assert await identified(certificates(ROOT), issue(name_of((ORGANIZATION, "x")), ROOT)) is None


async def test_without_a_certificate_there_is_no_user():
    assert await identified(certificates(ROOT)) is None


async def test_without_authorities_certificates_are_ignored():
    assert await identified(certificates(), client(ROOT)) is None


async def test_metrics_of_remaining_validity():
    metrics = ServingMetrics(MetricsRegistry())
    method = certificates(ROOT, expiration=metrics.apiserver_client_certificate_expiration_seconds)
    await identified(method, client(ROOT))
    with pytest.raises(Rejected):
        await identified(method, client(ROOT, end=NOW - datetime.timedelta(seconds=5)))
    observed = metrics.apiserver_client_certificate_expiration_seconds
    assert observed.sum == 86400 - 5


# --- hostile ones


def test_a_refusal_leaves_nothing_for_the_next_connection():
    with pytest.raises(Rejected):
        verify([client(OTHER_ROOT).der], [ROOT.certificate], now=START)
    assert lib.ERR_peek_error() == 0


def test_an_invalid_key_is_refused():
    own = client(ROOT)
    point = own.key.public_key().public_numbers().x.to_bytes(32)
    with pytest.raises(Rejected, match=UNKNOWN_AUTHORITY):
        verify([own.der.replace(point, bytes(32))], [ROOT.certificate], now=START)


@pytest.mark.parametrize(
    "der",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"garbage", id="garbage"),
        pytest.param(b"\x30\x82\xff\xff", id="a length that is not there"),
        pytest.param(b"\x30\x80" * 2000, id="nested without end"),
        pytest.param(client(ROOT).der[:-1], id="cut off"),
        pytest.param(client(ROOT).der + b"\0", id="more behind it"),
        pytest.param(client(ROOT).pem, id="PEM"),
    ],
)
async def test_invalid_certificates_are_refused(der):
    for presented in ((der,), (client(ROOT).der, der)):
        with pytest.raises(Rejected, match="x509: malformed certificate"):
            await certificates(ROOT).identify(NO_HEADERS, Peer(presented))


LEAF = client(LINK).der


@given(st.integers(0, len(LEAF) - 1), st.integers(1, 255))
def test_no_bit_can_be_changed(position, change):
    damaged = bytearray(LEAF)
    damaged[position] ^= change
    with pytest.raises(Rejected):
        verify([bytes(damaged), LINK.der], [ROOT.certificate], now=START)


def test_serial_numbers_are_positive():
    own = client(ROOT)
    number = own.certificate.serial_number.to_bytes(2)
    der = signed_anew(own, lambda tbs: tbs.replace(b"\x02\x02" + number, b"\x02\x02\x80\x01", 1), hashes.SHA256())
    with pytest.raises(Rejected, match="serial number is not positive"):
        verify([der], [ROOT.certificate], now=START)


def test_as_many_certificates_as_a_chain_can_have():
    links = [authority(f"link {number}", key=LINK.key) for number in range(MAX_PRESENTED - 2)]
    presented = [client(LINK).der, *(link.der for link in links), LINK.der]
    verify(presented, [ROOT.certificate], now=START)
    for number in (MAX_PRESENTED + 1, 100):
        with pytest.raises(Rejected, match=f"{number} certificates were presented, 10 at most are looked at"):
            verify((presented * 10)[:number], [ROOT.certificate], now=START)


def test_as_many_bytes_as_a_chain_can_have():
    """Reading a certificate of 80 KiB takes 8 ms of the event loop."""
    names = x509.SubjectAlternativeName([x509.DNSName(f"a{number}.example.com") for number in range(3000)])
    with pytest.raises(Rejected, match=r"x509: \d+ bytes of certificates were presented, 32768 at most are looked at"):
        verify([client(ROOT, extensions=[(names, False)]).der], [ROOT.certificate], now=START)


async def test_certificates_are_read_one_at_a_time(monkeypatch):
    """In between the event loop turns, and can renew the lease."""
    turns, read_in = 0, []

    async def turning():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    def noted(der):
        read_in.append(turns)
        return parsed(der)

    monkeypatch.setattr(client_certificates, "parsed", noted)
    clients = ClientCertificates(TrustedAuthorities(ROOT), wall_clock=lambda: START, uid_allowed=False)
    peer = Peer((client(ROOT).der,), "127.0.0.1")
    loop_turns = asyncio.create_task(turning())
    users = await asyncio.gather(*(clients.identify(NO_HEADERS, peer) for _ in range(20)))
    loop_turns.cancel()
    assert {user.name for user in users} == {"alice"}
    assert len(set(read_in)) == 20


def test_cyclic_chains_are_refused():
    one = authority("one")
    other = authority("other", one)
    again = authority("one", other, key=one.key)
    with pytest.raises(Rejected, match=UNKNOWN_AUTHORITY):
        verify([client(other).der, *[other.der, again.der] * 4], [ROOT.certificate], now=START)


async def test_signatures_are_checked_beside_the_event_loop(monkeypatch):
    """Whoever sends certificates holds up nobody else."""
    threads = []
    chain = client_certificates._chain

    def noted(*args):
        threads.append(threading.current_thread())
        return chain(*args)

    monkeypatch.setattr(client_certificates, "_chain", noted)
    await verify_in_thread([client(ROOT).der], [ROOT.certificate], now=START)
    with pytest.raises(Rejected, match=UNKNOWN_AUTHORITY):
        await verify_in_thread([client(OTHER_ROOT).der], [ROOT.certificate], now=START)
    assert len(threads) == 2
    assert threading.main_thread() not in threads
