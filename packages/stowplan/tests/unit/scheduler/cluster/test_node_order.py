"""The order of nodes: round robin over zones, compared with a plain model of lists after any changes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.scheduler.cluster.node_order import zone_of
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.testing import a_node
from support.examples import examples
from support.scheduling.worlds import ZONE, struct

REGION = "topology.kubernetes.io/region"
OLD_ZONE, OLD_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"


class Plain:
    """Lists of names by zone."""

    def __init__(self):
        self.zones = []

    def remove(self, name):
        for _, names in self.zones:
            if name in names:
                names.remove(name)
        self.zones = [(zone, names) for zone, names in self.zones if names]

    def add(self, name, zone):
        for known, names in self.zones:
            if known == zone:
                if name not in names:
                    self.remove(name)
                    names.append(name)
                return
        self.remove(name)
        self.zones.append((zone, [name]))

    def order(self):
        longest = max((len(names) for _, names in self.zones), default=0)
        return [names[turn] for turn in range(longest) for _, names in self.zones if turn < len(names)]


def order(state):
    return [state.table.names[row] for row in state.table.order.rows.tolist()]


def node(name, labels, cpu="4"):
    return struct(a_node(name).labels(labels).allocatable(cpu=cpu))


changes = st.lists(
    st.tuples(
        st.sampled_from(("add", "add", "add", "update", "remove")),
        st.integers(0, 9),
        st.sampled_from(({}, {ZONE: "a"}, {ZONE: "b"}, {ZONE: "a", REGION: "r"}, {REGION: "a"})),
    ),
    max_size=40,
)


def test_the_order_agrees_with_the_model():
    @examples(150)
    @given(changes)
    def as_the_model(changes):
        state, plain = ClusterState(), Plain()
        for i, (what, which, labels) in enumerate(changes):
            name = f"n{which}"
            if what == "remove":
                state.remove_node(name)
                plain.remove(name)
            elif what == "add" or name in state.table.row_of:
                state.add_node(node(name, labels, cpu=str(i)))
                plain.add(name, (labels.get(REGION, ""), labels.get(ZONE, "")))
            assert order(state) == plain.order()

    as_the_model()


def test_zones_take_turns():
    state = ClusterState()
    for name, zone in (("a1", "a"), ("a2", "a"), ("a3", "a"), ("b1", "b"), ("c1", "c"), ("c2", "c")):
        state.add_node(node(name, {ZONE: zone}))
    assert order(state) == ["a1", "b1", "c1", "a2", "c2", "a3"]
    state.remove_node("a1")
    state.remove_node("b1")
    state.add_node(node("b1", {ZONE: "b"}))
    assert order(state) == ["a2", "c1", "b1", "a3", "c2"]


@pytest.mark.parametrize(
    ("labels", "zone"),
    [
        pytest.param({}, ("", ""), id="none"),
        pytest.param({ZONE: "z", REGION: "r"}, ("r", "z"), id="both"),
        pytest.param({ZONE: "z", OLD_ZONE: "old"}, ("", "old"), id="the old label wins"),
        pytest.param({ZONE: "z", OLD_ZONE: ""}, ("", ""), id="even when it is empty"),
        pytest.param({REGION: "r", OLD_REGION: "old", ZONE: "z"}, ("old", "z"), id="each by itself"),
    ],
)
def test_the_zone_of_a_node(labels, zone):
    assert zone_of(struct(a_node("n").labels(labels))) == zone
