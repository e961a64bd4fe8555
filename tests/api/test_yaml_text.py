"""YAML that is nested too deeply ends with an error, not with the process."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from stowplan import load_config
from stowplan.api.load import LoadError, load_files, load_manifests
from stowplan.api.yaml_text import MAX_DEPTH, KubernetesLoader, TooDeepError, check_depth
from stowplan.config import ConfigError

DEEP = [
    pytest.param("[" * 100_000, id="brackets"),
    pytest.param("{a: " * 50_000, id="braces"),
    pytest.param("- " * 100_000 + "x", id="dashes on one line"),
    pytest.param("".join(" " * i + "a:\n" for i in range(2000)), id="indentation"),
]


@pytest.mark.parametrize("text", DEEP)
def test_deep_nesting_is_refused(text):
    with pytest.raises((TooDeepError, yaml.YAMLError)):
        check_depth(text)


@pytest.mark.parametrize("text", DEEP)
def test_in_files_too(tmp_path, text):
    path = tmp_path / "deep.yaml"
    path.write_text("kind:\n" + text.replace("\n", "\n "))
    for load in (load_files, load_manifests):
        with pytest.raises(LoadError, match=r"deep\.yaml"):
            load([str(path)])
    with pytest.raises(ConfigError):
        load_config(path)


values = st.recursive(
    st.text(alphabet="ab[]{}- :", max_size=8) | st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(alphabet="abc", min_size=1), inner, max_size=4),
)


def _depth(value):
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if items is None else 1 + max(map(_depth, items), default=0)


@given(values, st.booleans())
def test_depth_is_measured_exactly(value, flow):
    text = yaml.safe_dump(value, default_flow_style=flow)
    depth = _depth(value)
    check_depth(text, limit=depth)
    if depth:
        with pytest.raises(TooDeepError):
            check_depth(text, limit=depth - 1)


def test_what_is_deep_but_not_too_deep_can_be_read():
    text = "[" * (MAX_DEPTH // 2) + "]" * (MAX_DEPTH // 2)
    check_depth(text)
    assert yaml.load(text, Loader=KubernetesLoader)
