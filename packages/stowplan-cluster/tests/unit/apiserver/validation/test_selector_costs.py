"""Cost estimates of expressions; tests/integration/test_device_expressions.py checks the limit with real servers."""

import pytest

from stowplan.kube.cel.device_selectors import MAX_COST, compile_selector
from stowplan_cluster.apiserver.validation.call_costs import MOST
from stowplan_cluster.apiserver.validation.selector_costs import most_cost

TEXT = 'device.attributes["d"].text'


@pytest.mark.parametrize(
    ("expression", "most"),
    [
        ("true", 0),
        ("has(device.driver)", 1),
        ('device.driver == "d"', 3),
        # Ident, select, index, select, and the comparison with one character.
        (f'{TEXT} == "a"', 5),
        ("device.allowMultipleAllocations", 2),
        # 64 characters each.
        (f"{TEXT} == {TEXT}", 15),
        (f'{TEXT}.contains("ab")', 11),
        (f'{TEXT}.matches("a+b")', 11),
        ('"d" in device.attributes', 3),
        # 32 times the step and the loop condition.
        ('device.attributes.all(d, d == "x")', 163),
        ("lists.range(1000).all(x, x >= 0)", 6012),
        ("lists.range(size(device.driver)).all(x, x >= 0)", MOST),
        ("{'a': 1}.all(k, k.startsWith(device.driver))", 44),
        (f"cel.bind(x, {TEXT} + {TEXT}, x == x)", 46),
        (f'({TEXT} == "a" ? {TEXT} : "b") == "c"', 10),
    ],
)
def test_estimates(expression, most):
    assert most_cost(compile_selector(expression)) == most


def test_a_chain_of_optionals_is_estimated_quickly():
    assert most_cost(compile_selector("optional.of(1)" + ".optMap(x, x)" * 60 + ".hasValue()")) > MAX_COST


def test_maximum_nesting():
    expression = "true"
    for _ in range(200):
        expression = f"(!{expression})"
    assert most_cost(compile_selector(expression)) < 1000
