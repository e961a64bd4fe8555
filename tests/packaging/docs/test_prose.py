"""Prose of Markdown pages has lines below 120 characters, so that they can be read and reviewed anywhere."""

import re

import pytest

from support.paths import ROOT

#: An entry of the changelog is one line, which merges.
PAGES = sorted(page for page in ROOT.glob("*.md") if page.name != "CHANGELOG.md")
PAGES += [
    page
    for folder in ("docs", "deploy", "examples", "benchmarks", "packages")
    for page in (ROOT / folder).rglob("*.md")
]
LIMIT = 120


def long_lines(markdown):
    """Lines over the limit, other than tables (a row is one line) and code."""
    prose = re.sub(r"^```.*?^```", "", markdown, flags=re.MULTILINE | re.DOTALL)
    return [line for line in prose.splitlines() if len(line) >= LIMIT and not line.lstrip().startswith("|")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_lines_are_short(page):
    assert long_lines(page.read_text(encoding="utf-8")) == []


def test_a_long_line_is_found():
    words = "word " * 24
    assert long_lines(f"{words}\n| {words}|\n```text\n{words}\n```\n{words[:-1]}\n") == [words]
