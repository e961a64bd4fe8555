"""The ExecCredential protocol: input of a plugin, and errors in its output."""

import base64
import json

import pytest

from stowplan.net.client.credentials.exec_credentials import ExecAnswerError, ExecCluster, exec_info, parse_answer
from stowplan.net.client.endpoint.file_content import InlineContent
from support.http import certificates

V1 = "client.authentication.k8s.io/v1"
V1BETA1 = "client.authentication.k8s.io/v1beta1"
SECRET = "s3cr3t-t0k3n"
CA = certificates.make_ca()
ALICE = certificates.make_client_certificate(CA, "alice")
BOB = certificates.make_client_certificate(CA, "bob")


def an_answer(status, **fields):
    return {"kind": "ExecCredential", "apiVersion": V1, "status": status, **fields}


def parsed(document, api_version=V1):
    output = document if isinstance(document, bytes) else json.dumps(document).encode()
    return parse_answer(output, api_version=api_version, where="config: exec")


def test_info_without_a_cluster():
    info = exec_info(api_version=V1, interactive=False, cluster=None)
    assert json.loads(info) == {"kind": "ExecCredential", "apiVersion": V1, "spec": {"interactive": False}}


def test_info_of_a_bare_cluster():
    info = json.loads(exec_info(api_version=V1BETA1, interactive=True, cluster=ExecCluster(server="https://a")))
    assert info["apiVersion"] == V1BETA1
    assert info["spec"] == {"interactive": True, "cluster": {"server": "https://a", "config": None}}


def test_info_of_a_cluster_with_everything():
    cluster = ExecCluster(
        server="https://a",
        tls_server_name="name",
        insecure=True,
        ca=InlineContent(b"PEM", where="ca"),
        proxy_url="http://proxy:3128",
        disable_compression=True,
        config={"audience": "me"},
    )
    assert json.loads(exec_info(api_version=V1, interactive=False, cluster=cluster))["spec"]["cluster"] == {
        "server": "https://a",
        "tls-server-name": "name",
        "insecure-skip-tls-verify": True,
        "certificate-authority-data": base64.b64encode(b"PEM").decode(),
        "proxy-url": "http://proxy:3128",
        "disable-compression": True,
        "config": {"audience": "me"},
    }


@pytest.mark.parametrize("version", [V1, V1BETA1])
def test_a_token(version):
    answer = parsed(an_answer({"token": "t"}, apiVersion=version), version)
    assert (answer.token, answer.certificate, answer.expires) == ("t", None, None)


def test_yaml_is_accepted():
    assert parsed(f"kind: ExecCredential\napiVersion: {V1}\nstatus:\n  token: t\n".encode()).token == "t"


def test_a_certificate():
    status = {"clientCertificateData": ALICE.certificate.decode(), "clientKeyData": ALICE.key.decode(), "token": None}
    answer = parsed(an_answer(status))
    assert (answer.certificate.certificate, answer.certificate.key) == (ALICE.certificate, ALICE.key)
    assert "PRIVATE" not in repr(answer)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:01:00Z", 60),
        ("1970-01-01T01:01:00+01:00", 60),
        ("1970-01-01T00:01:00.500000000Z", 60.5),
        ("", None),
        (None, None),
    ],
)
def test_expiry(text, seconds):
    assert parsed(an_answer({"token": "t", "expirationTimestamp": text})).expires == seconds


@pytest.mark.parametrize(
    ("document", "message"),
    [
        pytest.param(b" \n", "printed nothing to standard output", id="nothing"),
        pytest.param(b"\xff", "is not UTF-8", id="bytes"),
        pytest.param(b'{"token": "' + SECRET.encode(), "is not JSON", id="truncated"),
        pytest.param(b"a: b: " + SECRET.encode(), "is not JSON", id="neither JSON nor YAML"),
        pytest.param(SECRET.encode(), "is not a JSON object", id="the bare token"),
        pytest.param(an_answer({"token": SECRET}, kind="Pod"), "returned another kind than ExecCredential", id="kind"),
        pytest.param({"status": {"token": SECRET}}, "returned another kind than ExecCredential", id="no kind"),
        pytest.param(
            an_answer({"token": SECRET}, apiVersion=V1BETA1),
            f'configured to use API version {V1}, plugin returned version "{V1BETA1}"',
            id="another version",
        ),
        pytest.param(an_answer({}, kind=SECRET), "returned another kind", id="a token as kind"),
        pytest.param(an_answer({}, apiVersion=SECRET), "returned version of another API", id="a token as version"),
        pytest.param(an_answer(None), "did not return a status field", id="no status"),
        pytest.param(an_answer(SECRET), "did not return a status field", id="status is text"),
        pytest.param(an_answer({}), "neither status.token nor a client certificate", id="empty status"),
        pytest.param(an_answer({"token": [SECRET]}), "status.token: expected a string", id="token is a list"),
        pytest.param(an_answer({"token": SECRET + "\n"}), "spaces or control characters", id="token with a line end"),
        pytest.param(
            an_answer({"clientCertificateData": "x", "token": SECRET}), "clientKeyData is missing", id="no key"
        ),
        pytest.param(an_answer({"clientKeyData": SECRET}), "clientCertificateData is missing", id="no certificate"),
        pytest.param(
            an_answer({"clientCertificateData": ALICE.certificate.decode(), "clientKeyData": BOB.key.decode()}),
            "status: the client key does not belong to the client certificate",
            id="another's key",
        ),
        pytest.param(
            an_answer({"clientCertificateData": "x", "clientKeyData": SECRET}), "no PEM certificate", id="no PEM"
        ),
        pytest.param(an_answer({"token": SECRET, "expirationTimestamp": "soon"}), "like 2030-01-02T15", id="soon"),
        pytest.param(
            an_answer({"token": SECRET, "expirationTimestamp": "2030-01-02T15:04:05"}), "like 2030-01", id="no zone"
        ),
        pytest.param(an_answer({"token": SECRET, "expirationTimestamp": 5}), "expected a string", id="a number"),
    ],
)
def test_errors_do_not_contain_the_secret(document, message):
    with pytest.raises(ExecAnswerError) as caught:
        parsed(document)
    assert message in str(caught.value)
    assert SECRET not in str(caught.value)
    assert "PRIVATE" not in str(caught.value)
