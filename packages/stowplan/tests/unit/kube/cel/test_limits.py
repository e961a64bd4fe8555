"""Hostile expressions: compiling and evaluating any text ends soon, with a value or one of our errors."""

from __future__ import annotations

import pytest

from stowplan.kube.cel.device_selectors import CompileError, Device, EvaluationError, compile_selector

DEVICE = Device(driver="d", attributes={"text": "x" * 64}, capacity={})
TOO_COSTLY = "^operation cancelled: actual cost limit exceeded$"
TOO_DEEP = "^compilation failed: ERROR: <input>:-1:0: "


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param("lists.range(2000).all(x, lists.range(2000).all(y, x + y >= 0))", id="nested comprehensions"),
        pytest.param("lists.range(2000000000).size() > 0", id="a huge list"),
        pytest.param("lists.range(100000).map(x, lists.range(100000)).size() > 0", id="many lists"),
        pytest.param("lists.range(100000).sort().isSorted()", id="sorting"),
        pytest.param("lists.range(500000).distinct().size() > 0", id="distinct"),
        pytest.param("sets.contains(lists.range(300000), lists.range(300000))", id="sets"),
        pytest.param("true || lists.range(2000000000).size() == 0 || true", id="not absorbed by a later operand"),
    ],
)
def test_evaluation_stops_at_the_cost_limit(expression):
    selector = compile_selector(expression)
    if expression.startswith("true"):
        assert selector.matches(DEVICE)  # Decided before that.
        return
    with pytest.raises(EvaluationError, match=TOO_COSTLY):
        selector.matches(DEVICE)


def test_exponential_evaluation_stops_at_the_cost_limit():
    selector = compile_selector("optional.of(1)" + ".optMap(x, x)" * 60 + ".hasValue()")
    with pytest.raises(EvaluationError, match=TOO_COSTLY):
        selector.evaluate(DEVICE, limit=20_000)


def test_expressions_without_cost_can_be_interrupted():
    numbers = "[" + ", ".join(map(str, range(500))) + "]"
    selector = compile_selector(f"{numbers}.exists_one(x, {numbers}.exists_one(y, false))")
    answers = iter([False] * 50 + [True])
    with pytest.raises(EvaluationError, match=r"^operation interrupted$"):
        selector.matches(DEVICE, interrupted=lambda _: next(answers))


def test_the_limit_is_inclusive():
    selector = compile_selector("lists.range(10).all(x, x >= 0)")
    cost = selector.evaluate(DEVICE).cost
    assert selector.evaluate(DEVICE, limit=cost).value is True
    with pytest.raises(EvaluationError, match=TOO_COSTLY):
        selector.evaluate(DEVICE, limit=cost - 1)


def doubling(first: str, step: str, times: int) -> str:
    """`first`, then `times` new names, each for `step` applied to the previous one."""
    bound = "".join(f"cel.bind(v{n + 1}, {step.format(f'v{n}')}, " for n in range(times))
    return f"cel.bind(v0, {first}, {bound}v{times}.size() > 0" + ")" * (times + 1)


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param(doubling('"xxxxxxxx"', "{0} + {0}", 60), id="strings that double"),
        pytest.param(doubling("[1, 2]", "{0} + {0}", 60), id="lists that double"),
        pytest.param(doubling('"xxxxxxxx"', '{0}.replace("x", {0})', 10), id="strings that square"),
        pytest.param(doubling('["xxxxxxxx"]', '[{0}.join("x"), {0}.join("y")]', 60), id="joins that double"),
        pytest.param(doubling('["xxxxxxxx"]', '["%s%s".format([{0}, {0}])]', 60), id="formats that double"),
        pytest.param('"%.999999999f".format([1.0]).size() > 0', id="digits"),
        pytest.param(doubling("[[1, 2], [3, 4]]", "{0}.map(x, {0}).map(x, x.flatten())", 60), id="nested lists"),
    ],
)
@pytest.mark.slow
def test_no_value_grows_without_bound(expression):
    with pytest.raises(EvaluationError, match=TOO_COSTLY):
        compile_selector(expression).matches(DEVICE)


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param("(" * 5000 + "true" + ")" * 5000, id="parentheses"),
        pytest.param("[" * 5000, id="open lists"),
        pytest.param("{1:" * 3000, id="open maps"),
        pytest.param("f(" * 5000, id="open calls"),
        pytest.param("device" + ".a" * 5000, id="selections"),
        pytest.param("device" + "[0]" * 3000, id="indexes"),
        pytest.param("1" + "+1" * 5000, id="sums"),
        pytest.param("true ? true : " * 700 + "true", id="conditionals"),
        pytest.param("[0]" + ".map(x, x)" * 900, id="comprehensions"),
        pytest.param("optional.of(1)" + ".optMap(x, x)" * 700, id="optionals"),
    ],
)
def test_deep_nesting_does_not_compile(expression):
    with pytest.raises(CompileError, match=TOO_DEEP):
        compile_selector(expression)


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param("&&".join(["true"] * 2000), id="a long conjunction"),
        pytest.param("!" * 10000 + "true", id="many signs"),
        pytest.param("(" * 150 + "true" + ")" * 150, id="parentheses"),
        pytest.param("device.driver in [" + ", ".join(f'"{n}"' for n in range(1500)) + ', "d"]', id="a long list"),
        pytest.param('"' + "x" * 10000 + '" != device.driver', id="a long text"),
        pytest.param("optional.of(1)" + ".optMap(x, x)" * 8 + ".hasValue()", id="optionals that nest"),
    ],
)
def test_long_flat_expressions_are_evaluated(expression):
    assert compile_selector(expression).matches(DEVICE)


def test_regular_expressions_take_linear_time():
    pytest.importorskip("re2")
    assert not compile_selector('device.attributes["d"].text.matches("^(x+x+)+y$")').matches(DEVICE)


@pytest.mark.parametrize(
    "text", ["", " ", "\x00", "\ud800", "é" * 3000, "'" * 9999, "`" * 9999, "\\" * 9999, "0x", "1e"]
)
def test_random_text_is_refused(text):
    with pytest.raises(CompileError, match=r"^compilation failed: ERROR: "):
        compile_selector(text)
