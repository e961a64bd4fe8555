"""Log lines about certificates."""

import pytest
from cryptography import x509

from stowplan.kube.klog.logger import configure
from stowplan.net.serving.authentication.authorities import Bundle
from stowplan.net.serving.tls.certificate_detail import certificate_detail
from stowplan.net.serving.tls.certificates import KeyPair
from stowplan.net.serving.tls.key_pairs import CertificateFiles, IdentityFiles, generated_identity
from support.http.certificates import make_ca, make_client_certificate, make_server_certificate

CA = make_ca("some-ca")


def read(made):
    return x509.load_pem_x509_certificate(made.certificate)


def validity(certificate):
    since, until = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return f"({since:%Y-%m-%d %H:%M:%S} +0000 UTC to {until:%Y-%m-%d %H:%M:%S} +0000 UTC)"


@pytest.mark.parametrize(
    ("made", "said"),
    [
        pytest.param(CA, '"some-ca" [] issuer="<self>"', id="authority"),
        pytest.param(
            make_client_certificate(CA, "ann", ("a", "b")), '"ann" [client] groups=[a,b] issuer="some-ca"', id="client"
        ),
        pytest.param(
            make_server_certificate(CA, ["h.example", "127.0.0.1"], common_name="h"),
            '"h" [serving] validServingFor=[127.0.0.1,h.example] issuer="some-ca"',
            id="server",
        ),
    ],
)
def test_subject_and_usages(made, said):
    certificate = read(made)
    assert certificate_detail(certificate) == f"{said} {validity(certificate)}"


@pytest.fixture
def logged():
    found = []

    class Sink:
        def write(self, entry):
            if entry.message in ("Loaded client CA", "Loaded serving cert"):
                found.append((entry.level, entry.message, dict(entry.keys)))

    configure(sink=Sink(), verbosity=2)
    yield found
    configure()


def test_each_authority_of_a_bundle(logged):
    other = make_ca("other-ca")
    bundle = Bundle("client-ca-bundle::/ca.crt")
    for _ in range(2):
        bundle.load(CA.certificate + other.certificate)
    keys = [
        {"index": i, "certName": "client-ca-bundle::/ca.crt", "certDetail": certificate_detail(read(made))}
        for i, made in enumerate((CA, other))
    ]
    assert logged == [(2, "Loaded client CA", each) for each in keys]


def test_each_replacement_of_a_servers_certificate(logged, tmp_path):
    paths = tmp_path / "tls.crt", tmp_path / "tls.key"
    expected = []
    identity = None
    for name in ("h", "other"):
        made = make_server_certificate(CA, ["h.example"], common_name=name)
        pair = KeyPair(made.certificate, made.key)
        for path, content in zip(paths, (pair.certificate, pair.key), strict=True):
            path.unlink(missing_ok=True)
            path.write_bytes(content)
        if identity is None:
            files = CertificateFiles(certificate=str(paths[0]), key=str(paths[1]))
            identity = IdentityFiles(files, purpose="serving-cert", wall_clock=lambda: 1.8e9)
        identity.refresh()
        named = f"serving-cert::{paths[0]}::{paths[1]}"
        keys = {"certName": named, "certDetail": certificate_detail(read(made))}
        expected.append((2, "Loaded serving cert", keys))
    assert logged == expected


def test_a_self_made_certificate(logged):
    made = generated_identity("", bind_address="0.0.0.0", wall_clock=lambda: 1.8e9)
    detail = certificate_detail(made.identity.certificates[0])
    assert detail.startswith('"localhost@1800000000" [serving] validServingFor=[127.0.0.1,localhost]')
    assert logged == [(2, "Loaded serving cert", {"certName": "Generated self signed cert", "certDetail": detail})]
