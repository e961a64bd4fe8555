"""Which pods of an earlier time are gone."""

from hypothesis import given
from hypothesis import strategies as st

from stowplan.testing import a_node, a_pod
from support.examples import examples
from support.scheduling.worlds import state_of, struct

NODES = ("a", "b", "gone")


def placed(name, node):
    return struct(a_pod(name).uid(name).on(node))


def test_replaced_pods_are_those_that_left_since_and_in_their_order_then():
    """Slots and orders are used again, also both by one other pod."""

    @examples(200)
    @given(
        st.lists(st.tuples(st.integers(0, 7), st.sampled_from(NODES)), max_size=10),
        st.lists(st.tuples(st.booleans(), st.integers(0, 11), st.sampled_from(NODES)), max_size=20),
    )
    def agrees(before, changes):
        state = state_of(map(a_node, NODES))
        state.remove_node("gone")
        for i, node in before:
            state.add_pod(placed(f"p{i}", node))
        then, snapshot = {info.uid: info for info in state.placed_pods()}, state.pods.snapshot()
        for added, i, node in changes:
            if added:
                state.add_pod(placed(f"p{i}", node))
            elif state.placed(f"p{i}") is not None:
                state.remove_pod(f"p{i}")
        found = state.pods.replaced_since(snapshot)
        gone = [uid for uid in then if state.placed(uid) is None]
        assert [info.uid for info in found if info.uid in gone] == gone
        assert all(then[info.uid] is info is not state.placed(info.uid) for info in found)

    agrees()
