"""Expressions of device classes that exceed the CEL cost limit: every server has the same limit."""

import json

import pytest

from stowplan.kube.cel.device_selectors import MAX_COST, compile_selector
from stowplan_cluster.apiserver.validation.selector_costs import most_cost
from support.http.raw_sockets import Target

TEXT = 'device.attributes["d"].text'
PATH = "spec.selectors[0].cel.expression"
COMPLEX = f'DeviceClass.resource.k8s.io "x" is invalid: {PATH}: Forbidden: too complex, exceeds cost limit'

#: Repeated until the cost exceeds the limit.
INNER = [
    f'{TEXT} == "a"',
    f"{TEXT} < device.driver",
    f'{TEXT}.matches("^(a|b)+$")',
    f'{TEXT}.contains("abc")',
    f'{TEXT}.split("").exists(c, c == "a")',
    f'{TEXT}.replace("a", "bb").size() > 0',
    f'{TEXT}.replace("", "abc").size() > 0 && {TEXT}.lowerAscii() == {TEXT}',
    f'{TEXT}.findAll("a.b").size() > 0',
    'sets.equivalent([device.driver, "b"], ["a", "c"])',
    'quantity("1Gi") == device.capacity["d"].memory',
    'semver("1.0.0").compareTo(semver("2.0.0")) < 0',
    f"cel.bind(x, {TEXT} + {TEXT}, x == x || x + x == x)",
    f'optional.of({TEXT}).optMap(v, v == "a").orValue(true)',
    'device.attributes["d"].?text.orValue("x") == "x"',
    "device.attributes.exists(d, device.attributes[d].exists(n, n == d))",
    'device.attributes["d"].transformMap(k, v, v == k).size() > 1',
    "device.attributes.all(d, n, d == device.driver && n.exists(k, v, k == d || v == k))",
    '["b", "a"].sortBy(e, e).distinct() == ["a"] && [[1], [2]].flatten().reverse().slice(0, 1) == [1]',
    f'({TEXT} == "a" ? {TEXT} : "bc") == "c" && [1, 2, 3].sum() > 5 && {TEXT} in ["a", "b"]',
    "bytes(device.driver).size() > 1 && string(bytes(device.driver)) == device.driver",
    'has(device.driver) && "%s %d".format([device.driver, 5]) == "a"',
]


def verdict(server, expression):
    body = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "x"},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    }
    path = "/apis/resource.k8s.io/v1/deviceclasses?dryRun=All"
    code, answer = Target(server).ask("POST", path, json.dumps(body).encode(), Content_Type="application/json")[:2]
    return code, json.loads(answer).get("message")


def times(inner, count):
    return f"lists.range({count}).all(i, {inner})"


@pytest.mark.parametrize("inner", INNER)
def test_the_cost_limit_is_exact(api_server, inner):
    least, most = 1, 1_000_000
    while most - least > 1:
        middle = (least + most) // 2
        if most_cost(compile_selector(times(inner, middle))) <= MAX_COST:
            least = middle
        else:
            most = middle
    assert verdict(api_server, times(inner, least)) == (201, None)
    assert verdict(api_server, times(inner, most)) == (422, COMPLEX)


def test_an_unbounded_expression_is_refused(api_server):
    assert verdict(api_server, "lists.range(size(device.driver)).all(x, true)") == (422, COMPLEX)


def test_there_is_no_authorizer(api_server):
    code, message = verdict(api_server, 'authorizer.path("/x").check("get").allowed()')
    assert code == 422
    assert "undeclared reference to 'authorizer' (in container '')" in message


@pytest.mark.parametrize(
    ("format", "problem"),
    [
        (f'"%s".format([{TEXT}])', "timestamps, was given google.protobuf.Any"),
        ('"%b".format([[1]])', "only integers and bools can be formatted as binary, was given list"),
        ('"%x".format([semver("1.0.0")])', "can be formatted as hex, was given kubernetes.Semver"),
        (f'"%s".format([{{"a": {TEXT}}}])', "timestamps, was given google.protobuf.Any"),
    ],
)
def test_values_that_a_format_does_not_have(api_server, format, problem):
    code, message = verdict(api_server, f'{format} == "x"')
    assert code == 422
    assert problem in message
