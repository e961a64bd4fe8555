"""Content negotiation, and the form of refusals."""

import json

import pytest
from multidict import CIMultiDict

from stowplan.kube.api.api_errors import Forbidden, NotAcceptable, StatusDetails, TooManyRequests, Unauthorized
from stowplan.net.serving.requests.forms import Target, clauses, error_response, negotiate

PLAIN = "application/json", "application/yaml"
LATER = TooManyRequests("later", details=StatusDetails(retry_after_seconds=7))


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        pytest.param("", [], id="nothing"),
        pytest.param("application/json", ["application/json"], id="one"),
        pytest.param(" text/html , a/b", ["text/html", "a/b"], id="two of a weight"),
        pytest.param("a/b;q=0.5,c/d;q=0.9,e/f", ["e/f", "c/d", "a/b"], id="by weight"),
        pytest.param("*", ["*/*"], id="a star is any"),
        pytest.param("*/*,a/*,a/b", ["a/b", "a/*", "*/*"], id="the particular before the general"),
        pytest.param("application,a/b/c,/,x/", [], id="no media types"),
        pytest.param("application/,a/b", ["a/b"], id="invalid entries are skipped"),
        pytest.param("a/b;q=much,c/d;q=0.1", ["c/d", "a/b"], id="invalid weights count as none"),
        pytest.param(",".join(["a/b"] * 99 + ["c/d", "e/f"]), ["a/b"] * 99 + ["c/d"], id="a hundred and no more"),
    ],
)
def test_accepted_types_by_preference(header, expected):
    assert [f"{clause.type}/{clause.subtype}" for clause in clauses(header)] == expected


@pytest.mark.parametrize(
    ("header", "target"),
    [
        pytest.param("a/b", None, id="none"),
        pytest.param("a/b;as=Flagz;g=config.k8s.io;v=v1", Target("config.k8s.io", "v1", "Flagz"), id="all of it"),
        pytest.param("a/b; as = Flagz ; v = v1 ", Target("", "v1", "Flagz"), id="with room between"),
        pytest.param("a/b;as=", None, id="no value"),
        pytest.param("a/b;as", None, id="no sign"),
        pytest.param("a/b;as=Flagz=x", None, id="two signs"),
    ],
)
def test_parameters_of_a_type(header, target):
    assert clauses(header)[0].target == target


def test_types_that_are_not_allowed_are_skipped():
    accept = "application/json;as=Table,application/yaml;q=0.5;pretty=1"
    form = negotiate(accept, PLAIN, allows=lambda media_type, clause: clause.target is None)
    assert (form.media_type, form.pretty) == ("application/yaml", True)
    with pytest.raises(NotAcceptable, match="only the following media types are accepted: application/json, applicat"):
        negotiate(accept, PLAIN, allows=lambda media_type, clause: False)


@pytest.mark.parametrize(
    ("error", "headers"),
    [
        pytest.param(Unauthorized("Unauthorized"), {}, id="no more than that"),
        pytest.param(Forbidden("forbidden"), {"X-Content-Type-Options": "nosniff"}, id="with invented names"),
        pytest.param(LATER, {"Retry-After": "7"}, id="retry after"),
    ],
)
def test_headers_of_a_refusal(error, headers):
    response = error_response(error, CIMultiDict(), {})
    assert (response.status, dict(response.headers)) == (error.status.code, headers)
    assert json.loads(response.body)["code"] == error.status.code


@pytest.mark.parametrize(
    ("headers", "query", "lines"),
    [
        pytest.param({}, {}, 1, id="a program"),
        pytest.param({}, {"pretty": ["true"]}, 9, id="a program that asks for it"),
        pytest.param({"User-Agent": "curl/8"}, {}, 9, id="a person"),
        pytest.param({"User-Agent": "curl/8"}, {"pretty": ["0"]}, 1, id="a person who would rather not"),
        pytest.param({"User-Agent": "curl/8", "Accept": "application/json"}, {}, 9, id="a person who names JSON"),
    ],
)
def test_browsers_get_indented_json(headers, query, lines):
    body = error_response(Unauthorized("Unauthorized"), CIMultiDict(headers), query).body.decode()
    assert len(body.splitlines()) == lines, body
