"""LegacyNodeLabel: required, forbidden and preferred labels, compared with the plain rule per node."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.scheduler.in_tree.legacy_node_label.declaration import LegacyNodeLabelArgs
from stowplan.scheduler.in_tree.legacy_node_label.plugin import LegacyNodeLabel
from stowplan.testing import a_node, a_pod

REASON = "node(s) didn't have the requested labels"
KEYS = st.lists(st.sampled_from("abc"), max_size=2, unique=True)


def world_of(bench, labels, **args):
    nodes = [a_node(f"n{i}").labels(**dict.fromkeys(keys, "x")) for i, keys in enumerate(labels)]
    return bench(LegacyNodeLabel, *nodes, args=LegacyNodeLabelArgs(**{k: tuple(v) for k, v in args.items()}))


@pytest.mark.parametrize(
    ("args", "refused"),
    [
        pytest.param({}, [], id="nothing asked"),
        pytest.param({"present_labels": "a"}, ["n0", "n2"], id="present"),
        pytest.param({"absent_labels": "a"}, ["n1", "n3"], id="absent"),
        pytest.param({"present_labels": "a", "absent_labels": "b"}, ["n0", "n2", "n3"], id="both"),
    ],
)
def test_required_and_forbidden_labels(bench, args, refused):
    world = world_of(bench, ["", "a", "b", "ab"], **args)
    assert world.refusals(a_pod()) == dict.fromkeys(refused, REASON)


@given(labels=st.lists(KEYS, min_size=1, max_size=5), present=KEYS, absent=KEYS)
def test_scores_are_the_share_of_satisfied_preferences(bench, labels, present, absent):
    world = world_of(bench, labels, present_labels_preference=present, absent_labels_preference=absent)
    wants = len(present) + len(absent)
    expected = {
        f"n{i}": 100 * (sum(k in keys for k in present) + sum(k not in keys for k in absent)) // max(1, wants)
        for i, keys in enumerate(labels)
    }
    assert world.scores(a_pod()) == expected


def test_a_new_label_wakes_pods(bench):
    assert world_of(bench, []).hint(a_pod(), a_node(), a_node().labels(a="x")) == "Queue"
