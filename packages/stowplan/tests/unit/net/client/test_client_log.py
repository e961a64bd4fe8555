"""Log lines about waiting requests and changing certificates."""

from datetime import timedelta

import pytest

from stowplan.kube.api.types import Pod
from stowplan.net.client.endpoint.file_content import FileContent
from stowplan.net.client.endpoint.tls import CertificatePair, TlsSettings
from stowplan.net.client.http.transport import Throttling
from support.api.clients import SHORT, VirtualTime, a_pod, an_api
from support.http.certificates import make_ca, make_client_certificate
from support.http.kubeconfigs import Clock
from support.http.misbehaving_server import Misbehaving, answers
from support.observing.log_lines import logged

# -- waiting requests


def waited(seconds, level):
    keys = {"delay": timedelta(seconds=seconds), "verb": "GET", "URL": "https://s/api"}
    keys["reason"] = "client-side throttling, not priority and fairness"
    return level, "Waited before sending request", keys


@pytest.mark.parametrize(
    ("verbosity", "levels"),
    [
        pytest.param(0, [0, 0], id="v0: every ten seconds"),
        pytest.param(2, [2, 2, 2], id="v2: every second"),
        pytest.param(3, [3, 3, 2, 3, 3, 2, 3, 2], id="v3: all of them too"),
    ],
)
def test_waits_are_logged_by_verbosity(verbosity, levels):
    clock = Clock()
    throttling = Throttling(clock)
    with logged(verbosity) as found:
        throttling.log("GET", "https://s/api", 0.2)
        for seconds in (0.0, 0.5, 1.0, 10.0):
            clock.now += seconds
            throttling.log("GET", "https://s/api", 2.0)
    lines = found.of("transport")
    assert [line[0] for line in lines] == levels
    assert all(line == waited(line[2]["delay"].total_seconds(), line[0]) for line in lines)


async def test_retry_after_is_logged():
    time = VirtualTime()
    refusal = answers(429, headers={"Retry-After": "2"})
    with logged() as found:
        async with (
            Misbehaving(refusal, answers(200, a_pod())) as server,
            an_api(server, time=time, limits=SHORT) as api,
        ):
            await api.get(Pod, "web-0", namespace="default")
            url = f"{server.url}/api/v1/namespaces/default/pods/web-0"
    keys = {"delay": timedelta(seconds=2), "attempt": 1, "url": url}
    assert found.of("transport") == [(4, "Got a Retry-After response", keys)]


# --- certificates


def test_certificates_that_change(tmp_path):
    ca, other = make_ca(), make_ca("other")
    clock = Clock()

    def write(name, data):
        (tmp_path / name).write_bytes(data)
        clock.now += 1000.0

    def content(name):
        return FileContent(tmp_path / name, where=name, clock=clock)

    def show(who):
        write("tls.crt", who.certificate)
        write("tls.key", who.key)

    write("ca.crt", ca.certificate)
    show(make_client_certificate(ca, "alice"))
    pair = CertificatePair(certificate=content("tls.crt"), key=content("tls.key"))
    settings = TlsSettings(ca=content("ca.crt"), certificate=pair)
    with logged() as found:
        settings.context()
        settings.context()
        assert found.of("tls") == []
        show(make_client_certificate(ca, "bob"))
        settings.context()
        write("ca.crt", other.certificate)
        settings.context()
    text = "Certificate rotation detected, shutting down client connections to start using new credentials"
    assert found.of("tls") == [(1, text, {}), (4, "Transport updated for CA rotation", {})]
