"""Patterns with Go's syntax, and limits on what they cost."""

import sys
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.kube.api import regexes
from stowplan_cluster.apiserver.custom.re2 import PatternError, TooCostly, compile_pattern


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
