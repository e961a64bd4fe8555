"""CEL's core agrees with an independent implementation, on generated expressions over generated devices.

The C++ library supports neither Kubernetes' libraries nor costs. The comparison covers whether there is a value, and
which; its error messages are its own.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.kube.cel.cel_errors import ValueProblem
from stowplan.kube.cel.device_selectors import CompileError, Device, device_environment
from support.examples import times

cel = pytest.importorskip("cel_expr_python.cel")

DOMAIN = "d.example.com"
ATTRIBUTES = [f'device.attributes["{DOMAIN}"].{name}' for name in ("flag", "count", "text", "missing")]
OTHER = cel.NewEnv(variables={"device": cel.Type.DYN})
ERROR = object()

INTEGERS = st.sampled_from(["0", "1", "-1", "7", "9223372036854775807", "-9223372036854775808"])
TEXTS = st.sampled_from(['""', '"a"', '"ab"', '"é"', "device.driver"])
BOOLS = st.sampled_from(["true", "false"])
LISTS = st.sampled_from(["[1, 2, 3]", "[0, -1]", "[7]"])


def binary(operators: list[str], operands: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds("({} {} {})".format, operands, st.sampled_from(operators), operands)


def integers(depth: int) -> st.SearchStrategy[str]:
    if depth == 0:
        return INTEGERS
    inner = integers(depth - 1)
    return st.one_of(
        INTEGERS,
        binary(["+", "-", "*", "/", "%"], inner),
        st.builds("size({})".format, st.one_of(texts(depth - 1), lists(depth - 1))),
        st.builds("{}[{}]".format, lists(depth - 1), inner),
        st.builds("({} ? {} : {})".format, bools(depth - 1), inner, inner),
        st.builds("int(string({}))".format, inner),
    )


def texts(depth: int) -> st.SearchStrategy[str]:
    if depth == 0:
        return TEXTS
    return st.one_of(
        TEXTS,
        binary(["+"], texts(depth - 1)),
        st.builds("string({})".format, st.one_of(integers(depth - 1), bools(depth - 1))),
        st.builds("({} ? {} : {})".format, bools(depth - 1), texts(depth - 1), texts(depth - 1)),
    )


def lists(depth: int) -> st.SearchStrategy[str]:
    if depth == 0:
        return LISTS
    return st.one_of(
        LISTS,
        st.builds("[{}, {}]".format, integers(depth - 1), integers(depth - 1)),
        binary(["+"], lists(depth - 1)),
        st.builds("{}.map(x, x {} {})".format, lists(depth - 1), st.sampled_from("+*/"), integers(depth - 1)),
        st.builds("{}.filter(x, {})".format, lists(depth - 1), predicates(depth - 1)),
    )


def predicates(depth: int) -> st.SearchStrategy[str]:
    """Of an integer variable `x`."""
    return st.one_of(
        st.builds("x {} {}".format, st.sampled_from(["<", "==", "!=", ">="]), integers(depth)),
        st.builds("{} / x == {}".format, INTEGERS, INTEGERS),
        st.builds("(x > 0 || {})".format, bools(depth)),
    )


def bools(depth: int) -> st.SearchStrategy[str]:
    if depth == 0:
        return st.one_of(BOOLS, st.sampled_from(ATTRIBUTES))
    return st.one_of(
        BOOLS,
        binary(["&&", "||"], bools(depth - 1)),
        st.builds("!{}".format, bools(depth - 1)),
        binary(["<", "<=", ">", ">=", "==", "!="], integers(depth - 1)),
        binary(["<", "<=", "==", "!="], texts(depth - 1)),
        binary(["==", "!="], lists(depth - 1)),
        st.builds(
            "({} {} {})".format,
            st.sampled_from(ATTRIBUTES),
            st.sampled_from(["==", "!=", "<", ">="]),
            st.one_of(integers(depth - 1), texts(depth - 1), bools(depth - 1)),
        ),
        st.builds("has({})".format, st.sampled_from(ATTRIBUTES)),
        st.builds("({} in {})".format, integers(depth - 1), lists(depth - 1)),
        st.builds(f'({{}} in device.attributes["{DOMAIN}"])'.format, texts(depth - 1)),
        st.builds(
            "{}.{}(x, {})".format,
            lists(depth - 1),
            st.sampled_from(["all", "exists", "exists_one"]),
            predicates(depth - 1),
        ),
        st.builds(
            "{}.{}({})".format,
            st.one_of(texts(depth - 1), st.just(ATTRIBUTES[2])),
            st.sampled_from(["startsWith", "endsWith", "contains"]),
            texts(depth - 1),
        ),
    )


DEVICES = st.fixed_dictionaries(
    {},
    optional={
        "flag": st.booleans(),
        "count": st.integers(-(2**63), 2**63 - 1),
        "text": st.text("abé", max_size=3),
    },
)


@settings(max_examples=times(150), deadline=None)
@given(expression=bools(3), attributes=DEVICES)
def test_the_core_agrees_with_another_implementation(expression, attributes):
    assert ours(expression, attributes) == theirs(expression, attributes)


def ours(expression: str, attributes: dict[str, Any]) -> object:
    device = Device(driver=DOMAIN, attributes=attributes, capacity={})
    try:
        program = device_environment(False).compiled(expression).program
        return program.run({"device": device.variable}, limit=1 << 62)[0]
    except (CompileError, ValueProblem):
        return ERROR


def theirs(expression: str, attributes: dict[str, Any]) -> object:
    # Only in Kubernetes is an unknown domain an empty map; no expression here uses one.
    device = {"driver": DOMAIN, "attributes": {DOMAIN: attributes}}
    try:
        value = OTHER.compile(expression).eval(data={"device": device})
    except RuntimeError:
        return ERROR
    return ERROR if value.type() == cel.Type.ERROR else value.plain_value()
