from __future__ import annotations

import pytest

from stowplan.kube.api.quantity import parse_quantity
from stowplan.kube.cel.device_selectors import (
    CompileError,
    Device,
    EvaluationError,
    Read,
    Version,
    compile_selector,
)

DRIVER = "gpu.example.com"
OWN = f'device.attributes["{DRIVER}"]'


def a_device(**changes) -> Device:
    parts = {
        "driver": DRIVER,
        "attributes": {"model": "a100", "count": 4, "ecc": True, "other.org/version": Version("1.2.3")},
        "capacity": {"memory": parse_quantity("40Gi")},
    }
    return Device(**(parts | changes))


@pytest.mark.parametrize(
    ("expression", "matches"),
    [
        pytest.param(f'device.driver == "{DRIVER}"', True, id="driver"),
        pytest.param(f'{OWN}.model == "a100"', True, id="a name without domain is the driver's"),
        pytest.param('has(device.attributes["other.org"].version)', True, id="a name with domain"),
        pytest.param('has(device.attributes["other.org"].model)', False, id="not under another domain"),
        pytest.param('"nope.org" in device.attributes', False, id="unknown domain is not in the map"),
        pytest.param('has(device.attributes["nope.org"].model)', False, id="unknown domain is an empty map"),
        pytest.param('size(device.attributes["nope.org"]) == 0', True, id="unknown domain has no names"),
        pytest.param(f"{OWN}.ecc", True, id="a bare attribute that is a bool"),
        pytest.param('device.attributes["other.org"].version.isLessThan(semver("1.10.0"))', True, id="version"),
        pytest.param(f'device.capacity["{DRIVER}"].memory.compareTo(quantity("32Gi")) > 0', True, id="quantity"),
        pytest.param("device.allowMultipleAllocations", False, id="allows one allocation"),
        pytest.param(f"cel.bind(own, {OWN}, own.count >= 2 && own.ecc)", True, id="bind"),
        pytest.param(f"{OWN}.exists(name, name == 'count')", True, id="names of attributes"),
        pytest.param(f'{OWN}.?nope.orValue("none") == "none"', True, id="optional"),
        pytest.param(f'{OWN}.nope == "x" || {OWN}.count == 4', True, id="an error in an irrelevant operand"),
    ],
)
def test_expressions_that_select(expression, matches):
    assert compile_selector(expression).matches(a_device()) is matches


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        (f"{OWN}.nope", "no such key: nope"),
        ('device.attributes["nope.org"].model == "x"', "no such key: model"),
        (f"{OWN}.model", "CEL result of type string could not be converted to bool: "),
        (f'{OWN}.count.startsWith("4")', "no such overload"),
        (f"{OWN}.count > 'x'", "no such overload"),
        ("quantity(device.driver).isInteger()", "quantities must match the regular expression"),
    ],
)
def test_evaluation_errors(expression, error):
    with pytest.raises(EvaluationError, match=f"^{error}") as caught:
        compile_selector(expression).matches(a_device())
    assert not caught.value.interrupted


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        ("device.driver", "must evaluate to bool or the unknown type, not string"),
        (
            "device.nope == 1",
            "compilation failed: ERROR: <input>:1:7: undefined field 'nope'\n | device.nope == 1\n | ......^",
        ),
        (
            'device.driver ==\n\t"x" && y',
            "compilation failed: ERROR: <input>:2:9: undeclared reference to 'y' (in container '')\n"
            ' |  "x" && y\n | ........^',
        ),
        ("int('x') == 1", "program instantiation failed: type conversion error from 'string' to 'int'"),
    ],
)
def test_compile_errors(expression, error):
    with pytest.raises(CompileError) as caught:
        compile_selector(expression)
    assert str(caught.value) == error


@pytest.mark.parametrize(
    ("value", "error"),
    [
        pytest.param(None, "attribute bad: unsupported attribute value", id="no supported value"),
        pytest.param((1, 2), "attribute bad: unsupported attribute value", id="a list without its gate"),
        pytest.param(
            Version("1.2"),
            "attribute bad: parse semantic version: No Major.Minor.Patch elements found",
            id="no version",
        ),
    ],
)
def test_one_bad_attribute_fails_every_expression(value, error):
    device = a_device(attributes={"bad": value})
    with pytest.raises(EvaluationError, match=f"^{error}$"):
        compile_selector("true").matches(device)


@pytest.mark.parametrize(
    ("capacity", "is_integer"),
    [
        pytest.param("2", True, id="text"),
        pytest.param("2000m", False, id="text of milli-units"),
        pytest.param("1.5Gi", False, id="text with a fraction"),
        pytest.param(parse_quantity("2"), True, id="nano-units"),
        pytest.param(parse_quantity("1500m"), False, id="nano-units of a fraction"),
    ],
)
def test_capacities_are_quantities(capacity, is_integer):
    device = a_device(capacity={"size": capacity})
    assert compile_selector(f'device.capacity["{DRIVER}"].size.isInteger()').matches(device) is is_integer


def test_a_bad_capacity_fails_every_expression():
    with pytest.raises(EvaluationError, match=r"^capacity size: quantities must match the regular expression"):
        compile_selector("true").matches(a_device(capacity={"size": "much"}))


class TestListsOfAttributes:
    def test_attributes_are_lists_with_their_gate(self):
        device = a_device(attributes={"modes": ("x", "y"), "versions": (Version("1.0.0"),), "one": "x"})
        selector = compile_selector(
            f'{OWN}.modes.includes("y") && {OWN}.one.includes("x") && !{OWN}.modes.includes(1)'
            f" && {OWN}.versions.exists(v, v.major() == 1) && {OWN}.modes.size() == 2",
            list_type_attributes=True,
        )
        assert selector.matches(device)

    def test_the_number_of_values_is_limited(self):
        device = a_device(attributes={"many": tuple(range(49))})
        with pytest.raises(EvaluationError, match="cannot be applied to lists longer than 48 values"):
            compile_selector(f"{OWN}.many.includes(100)", list_type_attributes=True).matches(device)

    def test_includes_is_undefined_without_the_gate(self):
        with pytest.raises(CompileError, match="undeclared reference to 'includes'"):
            compile_selector(f"{OWN}.model.includes('x')")

    def test_an_attribute_is_not_iterable_without_the_gate(self):
        with pytest.raises(CompileError, match="expression of type 'any' cannot be range of a comprehension"):
            compile_selector(f"{OWN}.model.all(x, true)")


class TestEqualContent:
    def test_equal_content(self):
        reordered = dict(reversed(a_device().attributes.items()))
        assert a_device() == a_device(attributes=reordered)
        assert len({a_device(), a_device(attributes=reordered)}) == 1

    @pytest.mark.parametrize(
        "changes",
        [
            {"driver": "other.example.com"},
            {"attributes": {}},
            {"capacity": {"memory": 1}},
            {"allow_multiple_allocations": True},
        ],
    )
    def test_different_content(self, changes):
        assert a_device() != a_device(**changes)

    @pytest.mark.parametrize(("one", "other"), [(True, 1), ("1.2.3", Version("1.2.3")), ((True,), (1,)), ((), None)])
    def test_types_are_distinguished(self, one, other):
        assert a_device(attributes={"x": one}) != a_device(attributes={"x": other})


def test_an_expression_is_compiled_once():
    assert compile_selector("device.driver == 'once'") is compile_selector("device.driver == 'once'")


def test_an_expression_reports_what_it_reads():
    selector = compile_selector(
        f'{OWN}.model == "x" || device.capacity["a"]["b"].isInteger() || has(device.attributes.c.d)'
        ' || device.attributes["e"].?f.hasValue() || device.attributes[device.driver].hidden'
    )
    assert selector.reads == {
        Read("attributes", DRIVER, "model"),
        Read("capacity", "a", "b"),
        Read("attributes", "c", "d"),
        Read("attributes", "e", "f"),
    }


class TestInterruption:
    def test_interruption_ends_a_long_evaluation(self):
        asked = []

        def interrupted(cost: int) -> bool:
            asked.append(None)
            return len(asked) == 3

        with pytest.raises(EvaluationError, match=r"^operation interrupted$") as caught:
            compile_selector("lists.range(1000).all(x, x >= 0) || true").matches(a_device(), interrupted=interrupted)
        assert caught.value.interrupted
        assert len(asked) == 3

    def test_short_evaluations_are_not_interrupted(self):
        assert compile_selector("[1, 2].all(x, x > 0)").matches(a_device(), interrupted=lambda _: True)
