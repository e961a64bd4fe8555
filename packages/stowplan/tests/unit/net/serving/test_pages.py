"""Pages about the process, compared with kube-scheduler 1.36.2."""

import json

import msgspec
import pytest
import yaml

from stowplan.kube.api.api_errors import NotAcceptable
from stowplan.kube.timing.times import RealTimes
from stowplan.net.serving.pages import (
    ProcessStatus,
    configz_page,
    debug_flags_pages,
    flagz_page,
    metrics_page,
    statusz_page,
)
from stowplan.net.serving.requests.messages import Response
from support.serving.secure_port import asked

START = 1_795_201_063.7
STATUS = ProcessStatus(
    start_time=START,
    runtime_version="go1.26.6",
    binary_version="1.36.2",
    emulation_version="1.36",
    paths=["/readyz/shutdown", "/readyz", "/healthz", "/livez", "/metrics/slis", "/flagz", "/configz"],
)
WARNING = (
    "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees "
    "and is for debugging purposes only."
)


def statusz(accept="", *, uptime=6.2, chance=0.3, **fields):
    times = RealTimes()
    times.wall_clock, times.random = (lambda: START + uptime), (lambda: chance)
    return statusz_page(STATUS, times=times)(asked(headers={"Accept": accept} if accept else {}, **fields))


def flagz(accept="", **fields):
    flags = {"v": "3", "secure-port": "10259", "tls-cipher-suites": "[]"}
    headers = {"Accept": accept} if accept else {}
    return flagz_page(lambda: flags, chance=lambda: 0.6)(asked(headers=headers, **fields))


def structured(version="v1beta1", kind="Statusz", media_type="application/json", group="config.k8s.io"):
    return f"{media_type};v={version};g={group};as={kind}"


@pytest.mark.parametrize("accept", ["", "*/*", "text/plain", "text/*", "text/html,*/*;q=0.8", "image/png,text/plain"])
def test_status_as_text(accept):
    response = statusz(accept)
    assert response.content_type == "text/plain; charset=utf-8"
    assert response.body.decode() == (
        f"\nkube-scheduler statusz\n{WARNING}\n\n"
        "Started:  Fri Nov 20 18:57:43 UTC 2026\n"
        "Up:  0 hr 00 min 06 sec\n"
        "Go version:  go1.26.6\n"
        "Binary version:  1.36.2\n"
        "Emulation version:  1.36\n"
        "Paths:  /configz /flagz /healthz /livez /metrics /readyz\n"
    )


def test_a_long_uptime():
    assert "\nUp= 27 hr 46 min 40 sec\n" in statusz(uptime=100_000, chance=0.5).body.decode()


def test_a_clock_that_was_turned_back():
    assert "\nUp= 0 hr 00 min 00 sec\n" in statusz(uptime=-50, chance=0.5).body.decode()


def test_flags_as_text():
    lines = flagz().body.decode().split("\n")
    assert lines == ["", "kube-scheduler flagz", WARNING, "secure-port=10259", "tls-cipher-suites=[]", "v=3", ""]


def test_status_as_json():
    response = statusz(structured())
    assert response.content_type == "application/json;g=config.k8s.io;v=v1beta1;as=Statusz"
    assert response.body.decode() == (
        '{"kind":"Statusz","apiVersion":"config.k8s.io/v1beta1","metadata":{"name":"kube-scheduler"},'
        '"startTime":"2026-11-20T18:57:43Z","uptimeSeconds":6,"goVersion":"go1.26.6","binaryVersion":"1.36.2",'
        '"emulationVersion":"1.36","paths":["/configz","/flagz","/healthz","/livez","/metrics","/readyz"]}\n'
    )
    assert response.headers == ()


def test_an_old_version_is_marked_deprecated():
    response = statusz(structured("v1alpha1", media_type="application/yaml"))
    assert response.content_type == "application/yaml;g=config.k8s.io;v=v1alpha1;as=Statusz"
    assert yaml.safe_load(response.body)["apiVersion"] == "config.k8s.io/v1alpha1"
    assert response.headers == (
        ("Warning", '299 - "This version of the statusz endpoint is deprecated. Please use a newer version."'),
    )
    assert "flagz" in flagz(structured("v1alpha1", "Flagz")).headers[0][1]


def test_flags_as_json():
    assert json.loads(flagz(structured(kind="Flagz")).body) == {
        "kind": "Flagz",
        "apiVersion": "config.k8s.io/v1beta1",
        "metadata": {"name": "kube-scheduler"},
        "flags": {"secure-port": "10259", "tls-cipher-suites": "[]", "v": "3"},
    }


@pytest.mark.parametrize(
    "accept",
    [
        "application/json",
        "application/*",
        "image/png",
        "nonsense",
        "/",
        ";q=1",
        structured("v2"),
        structured(kind="Flagz"),
        structured(group="apps"),
        structured(media_type="text/plain"),
        structured(media_type="application/cbor"),
    ],
)
def test_unsupported_types(accept):
    with pytest.raises(NotAcceptable) as caught:
        statusz(accept)
    message = "only the following media types are accepted: application/json, application/yaml, text/plain"
    assert (caught.value.status.message, caught.value.status.code) == (message, 406)


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (f"{structured()};q=0.5, text/plain", "text/plain; charset=utf-8"),
        (f"text/plain;q=0.5, {structured()}", "application/json;g=config.k8s.io;v=v1beta1;as=Statusz"),
        (f"application/json, {structured()}, */*", "application/json;g=config.k8s.io;v=v1beta1;as=Statusz"),
        (f"*/*, {structured('v1alpha1')}", "application/json;g=config.k8s.io;v=v1alpha1;as=Statusz"),
    ],
)
def test_the_preferred_supported_type(accept, expected):
    assert statusz(accept).content_type == expected


def test_the_configuration():
    response = configz_page(lambda: {"kind": "KubeSchedulerConfiguration"})(asked())
    assert isinstance(response, Response)
    assert (response.content_type, response.headers) == ("application/json", (("X-Content-Type-Options", "nosniff"),))
    assert msgspec.json.decode(response.body) == {"componentconfig": {"kind": "KubeSchedulerConfiguration"}}


async def test_resources_are_shown_by_leaders_only():
    leads = False
    page = metrics_page(lambda accept: ("text/x", b"x 1\n"), shown=lambda: leads, process_start=START)
    hidden = await page(asked())
    assert (hidden.status, hidden.body, hidden.headers) == (200, b"", ())
    leads = True
    shown = await page(asked())
    assert (shown.body, shown.content_type) == (b"x 1\n", "text/x")
    assert shown.headers == (("Process-Start-Time-Unix", "1795201063"),)
    # Resource metrics cannot be reset.
    assert (await page(asked(method="DELETE"))).body == b"x 1\n"


async def test_the_configuration_is_escaped():
    answer = configz_page(lambda: {"name": "<a&b>"})(asked())
    assert answer.body == rb'{"componentconfig":{"name":"\u003ca\u0026b\u003e"}}'


async def test_the_accept_header_is_passed_on():
    page = metrics_page(lambda accept: (f"for {accept}", b""))
    assert (await page(asked(headers={"Accept": "application/openmetrics-text"}))).content_type == (
        "for application/openmetrics-text"
    )


@pytest.mark.parametrize(
    ("method", "body", "status", "told"),
    [
        ("PUT", b"4", 200, "successfully set klog.logging.verbosity to 4"),
        ("PUT", b"x", 400, 'strconv.ParseUint: parsing "x": invalid syntax'),
        ("PUT", "٣".encode(), 400, 'strconv.ParseUint: parsing "٣": invalid syntax'),
        (
            "PUT",
            b"3000000000",
            400,
            'failed set klog.logging.verbosity 3000000000: strconv.ParseInt: parsing "3000000000": value out of range',
        ),
        ("PUT", b"2147483647", 200, "successfully set klog.logging.verbosity to 2147483647"),
        (
            "PUT",
            b"4294967295",
            400,
            'failed set klog.logging.verbosity 4294967295: strconv.ParseInt: parsing "4294967295": value out of range',
        ),
        ("PUT", b"4294967296", 400, 'strconv.ParseUint: parsing "4294967296": value out of range'),
        ("PUT", b"9" * 5000, 400, f'strconv.ParseUint: parsing "{"9" * 5000}": value out of range'),
        ("GET", b"", 406, "unsupported http method"),
        ("POST", b"4", 406, "unsupported http method"),
    ],
)
def test_verbosity(method, body, status, told):
    levels = []
    response = debug_flags_pages(levels.append)["/debug/flags/v"](asked(method=method, body=body))
    assert response.status == status
    assert response.body.decode() == f"{told}\n"
    assert levels == ([int(body)] if status == 200 else [])
    assert response.content_type == "text/plain"


def test_the_index_of_flags():
    pages = debug_flags_pages(lambda level: None)
    for path in ("/debug/flags", "/debug/flags/"):
        assert b"/debug/flags/v" in pages[path](asked(path)).body
