"""Patterns with Go's syntax; where Go and Python agree, results are compared with Python's `re`."""

import re
import sys
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.api import regexes
from stowplan_cluster.apiserver.custom.re2 import PatternError, TooCostly, compile_pattern


def matches(pattern, value):
    return compile_pattern(pattern).matches(value)


@pytest.mark.parametrize(
    ("pattern", "value", "expected"),
    [
        ("^a$", "a", True),
        ("^a$", "a\n", False),
        ("a", "bab", True),
        ("^$", "", True),
        ("", "anything", True),
        ("(?i)^straße$", "STRASSE", False),
        ("(?i)^k$", "\u212a", True),
        ("(?i)[^a]", "A", False),
        ("^(?i:a)b$", "Ab", True),
        ("^(?i:a)b$", "AB", False),
        ("^(?i)a(?-i)b$", "Ab", True),
        ("(?m)^b$", "a\nb\nc", True),
        ("^b$", "a\nb\nc", False),
        (".", "\n", False),
        ("(?s).", "\n", True),
        (r"^\s$", "\v", False),
        (r"^[\s]$", "\t", True),
        (r"^\d$", "٣", False),
        (r"^[\D]$", "٣", True),
        (r"^\w+$", "snake_9", True),
        (r"^\w$", "é", False),
        (r"\bfoo\b", "a foo b", True),
        (r"\bfoo\b", "afoo", False),
        (r"\Boo\b", "foo", True),
        (r"^\pL+$", "Straße", True),
        (r"^\p{Lu}$", "É", True),
        (r"^\P{Lu}$", "É", False),
        (r"^\p{^Lu}$", "e", True),
        (r"^[\p{N}-]+$", "1-٣", True),
        (r"^[[:alpha:]_]+$", "abc_", True),
        (r"^[[:^digit:]]$", "5", False),
        (r"^[]a]+$", "]a", True),
        (r"^[^]a]$", "]", False),
        (r"^[a-]+$", "a-", True),
        (r"^[-a]+$", "a-", True),
        (r"^\x41\x{1F600}\101$", "A\U0001f600A", True),
        (r"^\Qa.b\E$", "a.b", True),
        (r"^\Qa.b\E+$", "a.bb", True),
        (r"^a{2,3}$", "aaaa", False),
        (r"^a{2,}$", "aaaa", True),
        (r"^a{,3}$", "a{,3}", True),
        (r"^a{$", "a{", True),
        (r"^(a|b|)c$", "c", True),
        (r"^(?P<n>a)(?<m>b)(?:c)$", "abc", True),
        (r"^a*?b+?$", "aab", True),
        (r"\A-\z", "-", True),
        (r"^[\-\]\\]+$", "-]\\", True),
        (r"\.", "x", False),
    ],
)
def test_matches(pattern, value, expected):
    assert matches(pattern, value) is expected


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("[a", "missing closing ]: `[a`"),
        ("(a", "missing closing ): `(a`"),
        ("a)", "unexpected ): `a)`"),
        ("*a", "missing argument to repetition operator: `*`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("a{3,2}", "invalid repeat count: `{3,2}`"),
        ("(a{100}){100}", "invalid repeat count: `{100}`"),
        ("[z-a]", "invalid character class range: `z-a`"),
        (r"\y", r"invalid escape sequence: `\y`"),
        (r"(a)\1", r"invalid escape sequence: `\1`"),
        ("a\\", "trailing backslash at end of expression: ``"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        ("(?!a)", "invalid or unsupported Perl syntax: `(?!`"),
        ("[[:letter:]]", "invalid character class range: `[:letter:]`"),
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


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|a)*$", "^(a|aa)+$", "(x+x+)+y", "^(([a-z])+.)+[A-Z]([a-z])+$"])
def test_catastrophic_backtracking_does_not_happen(pattern):
    assert not matches(pattern, "a" * 20_000 + "!")


def test_expensive_patterns_are_quick():
    value = "".join(Random(1).choices("ab", k=20_000))
    assert not matches("[ab]*a[ab]{300}c", value)
    assert matches("[ab]*a[ab]{2}c", value + "abbc")
    with pytest.raises(TooCostly):
        matches("[ab]*a[ab]{900}c", value * 5)


_ATOMS = st.sampled_from(["a", "b", "ab", ".", "[ab]", "[^a]", r"\d", "(?:a|b)", "(?:)", "^", "$", r"\b", "(?:a|)"])


def _repeat(inner):
    return st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{0,1}?"])).map(
        lambda p: f"(?:{p[0]}){p[1]}"
    )


_PATTERNS = st.recursive(
    _ATOMS,
    lambda inner: (
        _repeat(inner)
        | st.lists(inner, min_size=1, max_size=3).map("".join)
        | st.lists(inner, min_size=2, max_size=3).map(lambda choices: f"(?:{'|'.join(choices)})")
    ),
    max_leaves=8,
)


@given(_PATTERNS, st.text("ab1 ", max_size=8))
def test_agrees_with_python_where_the_syntax_is_the_same(pattern, value):
    assert matches(pattern, value) is bool(re.search(pattern.replace("$", r"\Z"), value, re.ASCII))


@given(st.text(r"ab[](){}|*+?\^$-,:pP1Q", max_size=12), st.text("ab", max_size=4))
def test_any_text_is_a_pattern_or_refused(text, value):
    try:
        pattern = compile_pattern(text)
    except PatternError:
        return
    assert pattern.matches(value) in (True, False)
