"""LabelSelectors in JSON: matching, and their string form in requests."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.kube.api.label_selectors import SelectorError
from stowplan_cluster.apiserver.selection import compiled, format_selector, label_selector_of

KEYS = st.sampled_from(("a", "in", "example.com/b", "not-in"))
VALUES = st.lists(st.sampled_from(("", "x", "in", "y.z")), min_size=1, max_size=3)
EXPRESSIONS = st.one_of(
    st.fixed_dictionaries({"key": KEYS, "operator": st.sampled_from(("In", "NotIn")), "values": VALUES}),
    st.fixed_dictionaries({"key": KEYS, "operator": st.sampled_from(("Exists", "DoesNotExist"))}),
)
SELECTORS = st.fixed_dictionaries(
    {
        "matchLabels": st.dictionaries(KEYS, st.sampled_from(("", "x")), max_size=2),
        "matchExpressions": st.lists(EXPRESSIONS, max_size=3),
    }
)


@given(SELECTORS)
def test_the_string_form_selects_the_same(selector):
    assert label_selector_of(format_selector(selector)) == compiled(selector)


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        pytest.param(None, "", id="absent"),
        pytest.param({"matchLabels": {"b": "2", "a": "1"}}, "a=1,b=2", id="labels"),
        pytest.param({"matchExpressions": [{"key": "a", "operator": "In", "values": ["x"]}]}, "a in (x)", id="in one"),
        pytest.param(
            {"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["y", "x"]}]}, "a notin (x,y)", id="notin"
        ),
        pytest.param({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}, "!a", id="does not exist"),
    ],
)
def test_text(selector, text):
    assert format_selector(selector) == text


def test_a_null_selector_selects_nothing():
    selector = compiled(None)
    assert selector is not None
    assert not selector.matches({})


BAD = {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}


def test_invalid_selectors():
    assert compiled(BAD) is None
    with pytest.raises(SelectorError, match="not a label selector requirement: a Gt"):
        format_selector(BAD)
