"""docs/reference/behaviour.md: every docstring that refers to it names an existing section."""

import re

from support.paths import ROOT

SECTIONS = re.findall(r"^#+ (.*)$", (ROOT / "docs/reference/behaviour.md").read_text(encoding="utf-8"), re.MULTILINE)
POINTER = re.compile(r"docs/reference/behaviour\.md,\s+(.*?)\.$", re.MULTILINE)


def test_sections_that_docstrings_name_exist():
    found = [
        (str(path.relative_to(ROOT)), section)
        for path in sorted((ROOT / "packages").rglob("*/src/**/*.py"))
        for section in POINTER.findall(path.read_text(encoding="utf-8"))
    ]
    assert len(found) > 15
    assert [one for one in found if one[1] not in SECTIONS] == []


def test_docstrings_name_existing_pages():
    paths = [path.relative_to(ROOT) for path in ROOT.rglob("*.md") if ".venv" not in path.parts]
    pages = {path.name for path in paths} | {str(path) for path in paths}
    named = {
        (str(path.relative_to(ROOT)), name)
        for path in sorted((ROOT / "packages").rglob("*/src/**/*.py"))
        for name in re.findall(r"\b(?:docs/[a-z/-]+|[a-z-]+)\.md\b", path.read_text(encoding="utf-8"))
    }
    assert {one for one in named if one[1] not in pages} == set()
