"""The guide for plugin authors does what it says: each of its Python blocks runs by itself."""

import re
from pathlib import Path

import pytest

import stowplan.plugins
from stowplan.framework.interface import EXTENSION_POINTS
from stowplan.plugins import Reads

GUIDE = (Path(__file__).parents[2] / "docs" / "plugins.md").read_text(encoding="utf-8")
BLOCKS = [block.group(1) for block in re.finditer(r"^```python\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)]


def run(block):
    namespace = {"__name__": "guide"}
    exec(compile(block, "docs/plugins.md", "exec"), namespace)
    return namespace


@pytest.mark.parametrize("block", [pytest.param(b, id=re.search(r"class (\w+)", b)[1]) for b in BLOCKS])
def test_examples_run(block):
    assert "assert " in block
    run(block)


def test_there_is_an_example_of_each_level():
    assert len(BLOCKS) == 2


def test_bad_arguments_are_told_as_the_guide_says():
    guide = run(next(block for block in BLOCKS if "Headroom" in block))
    guide["config"]["profiles"][0]["pluginConfig"][0]["args"]["percent"] = 200
    with pytest.raises(ValueError, match="initializing plugin") as caught:
        stowplan.Cluster([], config=guide["config"], plugins=[guide["Headroom"]])
    assert f"`{caught.value}`" in GUIDE


def test_every_extension_point_and_kind_of_reading_is_listed():
    for name in (*EXTENSION_POINTS, *(f"Reads.{member.name}" for member in Reads)):
        assert f"`{name}`" in GUIDE, name


def test_classes_that_the_guide_names_can_be_imported():
    named = set(re.findall(r"`([A-Z]\w+(?:Plugin|Signed|Extensions|Pods|Info|State|Result))`", GUIDE))
    assert named
    assert sorted(named - set(stowplan.plugins.__all__)) == []
