"""YAML that is nested too deeply gives an error and does not crash the process."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from stowplan import load_config
from stowplan.kube.api.manifest_files import LoadError, load_files, load_manifests
from stowplan.kube.api.yaml_text import (
    MAX_DEPTH,
    KubernetesLoader,
    StrictLoader,
    TooDeepError,
    composed,
    first_value,
    to_yaml,
    with_string_keys,
)
from stowplan.kube.config import ConfigError

DEEP = [
    pytest.param("[" * 100_000, id="brackets"),
    pytest.param("{a: " * 50_000, id="braces"),
    pytest.param("- " * 100_000 + "x", id="dashes on one line"),
    pytest.param("".join(" " * i + "a:\n" for i in range(2000)), id="indentation"),
]


@pytest.mark.parametrize("text", DEEP)
def test_deep_nesting_is_refused(text):
    with pytest.raises((TooDeepError, yaml.YAMLError)):
        list(composed(text))


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
    assert len(list(composed(text, limited_to(depth)))) == 1
    if depth:
        with pytest.raises(TooDeepError):
            list(composed(text, limited_to(depth - 1)))


def limited_to(depth):
    return type("Limited", (KubernetesLoader,), {"max_depth": depth})


@pytest.mark.parametrize("levels", [MAX_DEPTH // 2, MAX_DEPTH])
def test_nesting_up_to_the_limit_can_be_read(levels):
    text = "[" * levels + "]" * levels
    (found,) = (loader.value(node) for loader, node in composed(text))
    assert _depth(found) == levels
    # Documents are measured separately.
    assert len(list(composed(f"{text}\n---\n{text}"))) == 2
    with pytest.raises(TooDeepError, match="line 2: nested deeper than 200 levels"):
        list(composed(f"a:\n  {'[' * MAX_DEPTH}{']' * MAX_DEPTH}"))


# -- values, built in one pass or by PyYAML's constructors -----------------------------------------------------------

NUMBERS = ["0x1F", "010", "1_000", "1e3", "09", "2.0", ".5", "-.inf"]
TEXTS = st.sampled_from([*NUMBERS, "a", "yes", "Y", "~", "null", "", "=", "<<", "2026-01-02", "1:30", "'1'"])
DOCUMENTS = st.recursive(
    TEXTS | st.sampled_from(["!!str 1", "!!binary aGk=", "!!int x", "!!set {a, b}", "&x [1]"]),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]")
        | st.lists(st.tuples(TEXTS.filter(bool), inner), max_size=3).map(
            lambda pairs: "{" + ", ".join(f"{key}: {item}" for key, item in pairs) + "}"
        )
    ),
    max_leaves=8,
)


def outcome(read):
    try:
        return repr(read())
    except (yaml.YAMLError, TooDeepError) as error:
        return str(error)


@given(DOCUMENTS, st.sampled_from([KubernetesLoader, StrictLoader]))
def test_both_ways_to_build_a_value_agree(text, loader_class):
    def slowly():
        return [with_string_keys(loader.construct_document(node)) for loader, node in composed(text, loader_class)]

    assert outcome(lambda: [loader.value(node) for loader, node in composed(text, loader_class)]) == outcome(slowly)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0o644", 420),
        ("-0O17", -15),
        ("0644", 420),
        ("09", 9),
        ("0X1F", 31),
        ("-0b1_1", -3),
        ("1_000", 1000),
        ("1e3", 1000),
        ("1E-3", 0.001),
        ("1e1_0", 10**10),
        ("2.0", 2),
        ("5.", 5),
        ("123e", "123e"),
        ("0x", "0x"),
        ("0o9", "0o9"),
        ("_1", "_1"),
        ("1e400", float("inf")),
        ("18446744073709551616", 2**64),
        ("Y", True),
        ("n", False),
        ("On", True),
        ("nULL", "nULL"),
        ("1:30", "1:30"),
        ("2026-01-01", "2026-01-01"),
        ("=", "="),
    ],
)
def test_scalars_are_those_of_kubectl(text, value):
    """As `kubectl create --dry-run=client -o json` shows them."""
    found = first_value(f"a: {text}")["a"]
    assert (found, type(found)) == (value, type(value))


#: Text that YAML reads as something else unless it is quoted, and any other.
AMBIGUOUS = st.sampled_from(
    [
        "y",
        "N",
        "on",
        "null",
        "~",
        "",
        "0o17",
        "017",
        "0x1f",
        "1_000",
        "1e3",
        ".5",
        ".inf",
        "1:30",
        "2026-01-01",
        "=",
        "<<",
    ]
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    AMBIGUOUS,
    st.text(),
)
VALUES = st.recursive(
    SCALARS,
    lambda values: st.one_of(
        st.lists(values, max_size=4), st.dictionaries(st.one_of(AMBIGUOUS, st.text()), values, max_size=4)
    ),
    max_leaves=12,
)


@given(VALUES, st.sampled_from([80, 1000]))
def test_written_values_are_read_back(value, width):
    text = to_yaml(value, width=width)
    assert first_value(text, KubernetesLoader) == value
    assert yaml.safe_load(text) == value
