"""Values against schemas, with upstream's messages."""

import sys
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.kube.api import regexes
from stowplan_cluster.apiserver.custom.openapi import PatternError, TooCostly, compile_pattern, validate_value


def complaints(schema, value, **rest):
    return [str(error) for error in validate_value(schema, value, path="spec.x", **rest)]


def says(value, text, at="spec.x"):
    return f"{at}: Invalid value: {value}: {text}"


INTEGER = {"type": "integer"}
AT_X = "spec.x in body"


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        (INTEGER, 3, []),
        (INTEGER, 3.0, []),
        (INTEGER, "a", [says('"string"', f'{AT_X} must be of type integer: "string"')]),
        (INTEGER, True, [says('"boolean"', f'{AT_X} must be of type integer: "boolean"')]),
        (INTEGER, None, [says('"null"', f'{AT_X} must be of type integer: "null"')]),
        (INTEGER | {"nullable": True}, None, []),
        (
            INTEGER,
            1.5,
            [
                says('"number"', f'{AT_X} must be of type integer: "number"'),
                '<nil>: Invalid value: "": Checked value must be of type integer (default format) in spec.x',
            ],
        ),
        (
            {"type": "integer", "format": "int32"},
            1 << 31,
            ['<nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec.x'],
        ),
        ({"type": "integer", "format": "int32"}, True, [says('""', f'{AT_X} must be of type int32: ""')]),
        ({"type": "number"}, 3, []),
        ({"type": "string"}, {}, [says('"object"', f'{AT_X} must be of type string: "object"')]),
        ({"type": "object"}, [], [says('"array"', f'{AT_X} must be of type object: "array"')]),
        ({"x-kubernetes-int-or-string": True}, "5%", []),
        (
            {"x-kubernetes-int-or-string": True},
            [],
            [says('"array"', f'{AT_X} must be of type integer,string: "array"')],
        ),
        (INTEGER | {"minimum": 1}, 0, [says(0, f"{AT_X} should be greater than or equal to 1")]),
        (
            INTEGER | {"minimum": 1, "exclusiveMinimum": True},
            1,
            [says(1, f"{AT_X} should be greater than 1")],
        ),
        (INTEGER | {"maximum": 9}, 10, [says(10, f"{AT_X} should be less than or equal to 9")]),
        (
            {"type": "number", "maximum": 1.5, "exclusiveMaximum": True},
            1.5,
            [says(1.5, f"{AT_X} should be less than 1.5")],
        ),
        (INTEGER | {"multipleOf": 5}, 7, [says(7, f"{AT_X} should be a multiple of 5")]),
        ({"type": "number", "multipleOf": 0.1}, 0.3, []),
        ({"type": "string", "maxLength": 2}, "äöü", ["spec.x: Too long: may not be more than 2 bytes"]),
        ({"type": "string", "minLength": 2}, "ä", [says('"ä"', f"{AT_X} should be at least 2 chars long")]),
        ({"type": "string", "pattern": "^a+$"}, "ab", [says('"ab"', f"{AT_X} should match '^a+$'")]),
        (
            {"type": "string", "format": "date-time"},
            "soon",
            [says('"soon"', f'{AT_X} must be of type date-time: "soon"')],
        ),
        ({"type": "string", "format": "made-up"}, "soon", []),
        ({"enum": ["a", "b"]}, "c", ['spec.x: Unsupported value: "c": supported values: "a", "b"']),
        ({"enum": [1, {"a": 2}]}, True, ['spec.x: Unsupported value: true: supported values: "1", "{\\"a\\":2}"']),
        (
            {"type": "array", "items": INTEGER},
            [1, "a"],
            [says('"string"', 'spec.x[1] in body must be of type integer: "string"', "spec.x[1]")],
        ),
        ({"type": "array", "minItems": 2}, [1], [says(1, f"{AT_X} should have at least 2 items")]),
        ({"type": "array", "maxItems": 1}, [1, 2], ["spec.x: Too many: 2: must have at most 1 item"]),
        ({"type": "object", "required": ["a"]}, {}, ["spec.x.a: Required value"]),
        ({"type": "object", "minProperties": 1}, {}, [says(0, f"{AT_X} should have at least 1 properties")]),
        ({"type": "object", "maxProperties": 1}, {"a": 1, "b": 2}, ["spec.x: Too many: 2: must have at most 1 item"]),
        (
            {"type": "object", "additionalProperties": INTEGER},
            {"a": "b"},
            [says('"string"', 'spec.x.a in body must be of type integer: "string"', "spec.x.a")],
        ),
        (
            {"type": "object", "additionalProperties": False},
            {"a": "b"},
            [says('"a"', "spec.x.a in body is a forbidden property")],
        ),
        ({"not": {"enum": [1]}}, 1, ['<nil>: Invalid value: "": "spec.x" must not validate the schema (not)']),
        ({"anyOf": [{"minimum": 5}, {"maximum": 1}]}, 1, []),
        (
            {"anyOf": [{"required": ["a", "d"]}, {"required": ["b"]}]},
            {"c": 1},
            [
                '<nil>: Invalid value: "": "spec.x" must validate at least one schema (anyOf)',
                "spec.x.b: Required value",
            ],
        ),
        (
            {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
            {"a": 1, "b": 1},
            [
                '<nil>: Invalid value: "": "spec.x" must validate one and only one schema (oneOf). '
                "Found 2 valid alternatives"
            ],
        ),
        (
            {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
            {},
            [
                '<nil>: Invalid value: "": "spec.x" must validate one and only one schema (oneOf). Found none valid',
                "spec.x.a: Required value",
            ],
        ),
        (
            {"allOf": [{"minimum": 5}, {"minimum": 1}]},
            3,
            [
                says(3, f"{AT_X} should be greater than or equal to 5"),
                '<nil>: Invalid value: "": "spec.x" must validate all the schemas (allOf)',
            ],
        ),
        (
            {"allOf": [{"minimum": 5}]},
            3,
            [
                says(3, f"{AT_X} should be greater than or equal to 5"),
                '<nil>: Invalid value: "": "spec.x" must validate all the schemas (allOf). None validated',
            ],
        ),
    ],
)
def test_messages(schema, value, expected):
    assert complaints(schema, value) == expected


def test_the_root_has_no_path():
    schema = {"type": "object", "required": ["spec"], "properties": {"spec": {"type": "object", "required": ["a"]}}}
    assert [str(error) for error in validate_value(schema, {})] == ["spec: Required value"]
    assert [str(error) for error in validate_value(schema, {"spec": {}})] == ["spec.a: Required value"]
    assert [str(error) for error in validate_value({"minProperties": 1}, {})] == [
        "<nil>: Invalid value: 0:  in body should have at least 1 properties"
    ]


def test_a_too_expensive_pattern_is_an_error():
    value = "".join(Random(1).choices("ab", k=100_000))
    (complaint,) = complaints({"type": "string", "pattern": "[ab]*a[ab]{900}c"}, value)
    assert complaint.endswith("but that takes too long to find out: shorten the value")


STRICT = {
    "type": "object",
    "properties": {
        "a": {"type": "integer", "maximum": 5},
        "b": {"type": "integer", "maximum": 5},
        "parts": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "properties": {"size": {"type": "integer", "maximum": 5}}},
        },
        "plain": {"type": "array", "items": {"type": "integer", "maximum": 5}},
    },
}


@pytest.mark.parametrize(
    ("old", "new", "fields"),
    [
        pytest.param({"a": 9, "b": 1}, {"a": 9, "b": 2}, [], id="the invalid value is unchanged"),
        pytest.param({"a": 9, "b": 1}, {"a": 8, "b": 1}, ["spec.x.a"], id="the invalid value has changed"),
        pytest.param({"b": 1}, {"a": 9, "b": 1}, ["spec.x.a"], id="the invalid value is new"),
        pytest.param(
            {"parts": [{"name": "p", "size": 9}, {"name": "q"}]},
            {"parts": [{"name": "q", "size": 7}, {"name": "p", "size": 9, "more": 1}]},
            ["spec.x.parts[0].size"],
            id="elements are told apart by their key",
        ),
        pytest.param({"plain": [9, 1]}, {"plain": [9, 2]}, ["spec.x.plain[0]"], id="elements of plain lists are not"),
        pytest.param({"plain": [9, 1]}, {"plain": [9, 1], "b": 1}, [], id="but the whole list is"),
    ],
)
def test_ratcheting(old, new, fields):
    assert [error.field for error in validate_value(STRICT, new, path="spec.x", old=old)] == fields


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
_SCHEMAS = st.recursive(
    st.sampled_from(
        [
            {},
            {"type": "string"},
            INTEGER,
            {"type": "number", "minimum": 1},
            {"type": "boolean"},
            {"type": "string", "pattern": "^a*$"},
            {"enum": [1, "a", None]},
            {"type": "string", "format": "duration"},
            {"type": "array"},
        ]
    ),
    lambda inner: (
        st.builds(lambda of: {"type": "array", "items": of, "maxItems": 2}, inner)
        | st.builds(
            lambda one, two: {"type": "object", "properties": {"a": one, "b": two}, "required": ["a"]}, inner, inner
        )
        | st.builds(lambda one, two: {"anyOf": [one, two]}, inner, inner)
        | st.builds(lambda one, two: {"oneOf": [one, two]}, inner, inner)
        | st.builds(lambda of: {"not": of}, inner)
    ),
    max_leaves=5,
)


@given(_SCHEMAS, _VALUES)
def test_logic_of_alternatives(schema, value):
    def valid(schema):
        return not validate_value(schema, value)

    other = {"type": "string"}
    if value is not None:
        assert valid({"not": schema}) is not valid(schema)
        assert valid({"anyOf": [schema, other]}) is (valid(schema) or valid(other))
        assert valid({"oneOf": [schema, other]}) is (valid(schema) is not valid(other))
        assert valid({"allOf": [schema, other]}) is (valid(schema) and valid(other))
    assert not validate_value(schema, value, old=value)


def matches(pattern, value):
    return compile_pattern(pattern).matches(value)


@pytest.mark.parametrize(
    ("pattern", "value", "expected"),
    [
        ("^a$", "a", True),
        ("^a$", "a\n", False),
        ("a", "bab", True),
        ("(?i)^k$", "\u212a", True),
        ("(?m)^b$", "a\nb\nc", True),
        (".", "\n", False),
        (r"^\d$", "٣", False),
        (r"^\p{Lu}$", "É", True),
        (r"^\Qa.b\E+$", "a.bb", True),
        (r"^(?P<n>a)(?<m>b)(?:c)$", "abc", True),
    ],
)
def test_matches(pattern, value, expected):
    assert matches(pattern, value) is expected


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("[a", "missing closing ]: `[a`"),
        (r"(a)\1", r"invalid escape sequence: `\1`"),
        ("a\\", "trailing backslash at end of expression: ``"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
    ],
)
def test_invalid_patterns(pattern, message):
    with pytest.raises(PatternError) as caught:
        compile_pattern(pattern)
    assert str(caught.value) == f"error parsing regexp: {message}"


@pytest.mark.slow
def test_oversized_patterns_are_refused():
    # Go refuses it because of its depth.
    assert matches("(" * 5000 + ")" * 5000, "a")
    with pytest.raises(PatternError, match="too large"):
        compile_pattern("([ab]{1000}c)" * 300)


def test_without_the_extra_every_value_matches(monkeypatch):
    monkeypatch.setitem(sys.modules, "re2", None)
    monkeypatch.setattr(regexes, "find_spec", lambda name: None)
    compile_pattern.cache_clear()
    try:
        assert not regexes.available()
        assert matches("(", "a")
        assert matches("^b$", "a")
    finally:
        compile_pattern.cache_clear()


def test_single_bytes_are_not_in_gos_syntax():
    with pytest.raises(PatternError, match=r"invalid escape sequence: `\\C`"):
        compile_pattern(r"a\\\C")
    assert matches(r"\\C", r"\C")
    assert matches(r"\Q\C\E", r"\C")


def test_expensive_patterns_are_quick():
    value = "".join(Random(1).choices("ab", k=20_000))
    assert not matches("[ab]*a[ab]{300}c", value)
    assert matches("[ab]*a[ab]{2}c", value + "abbc")
    with pytest.raises(TooCostly):
        matches("[ab]*a[ab]{900}c", value * 5)


@given(st.text(r"ab[](){}|*+?\^$-,:pP1Q", max_size=12), st.text("ab", max_size=4))
def test_any_text_is_a_pattern_or_refused(text, value):
    try:
        pattern = compile_pattern(text)
    except PatternError:
        return
    assert pattern.matches(value) in (True, False)
