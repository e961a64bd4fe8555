"""Which pods are pending after any changes, compared with a plain rule."""

from hypothesis import given
from hypothesis import strategies as st

from stowplan.scheduler.cluster.state import ClusterState
from stowplan.testing import a_node, a_pod
from support.examples import examples
from support.scheduling.worlds import struct

NAMES = ("a", "b")
UIDS = ("1", "2")

#: (event, name, uid, version).
STEPS = st.lists(
    st.tuples(
        st.sampled_from(("pending", "assume", "forget", "bound", "gone")),
        st.sampled_from(NAMES),
        st.sampled_from(UIDS),
        st.integers(0, 2),
    ),
    max_size=30,
)


def pod(name, uid, version, **spec):
    return struct(a_pod(name).uid(f"{name}{uid}").labels(version=str(version)).spec(**spec))


@examples(200)
@given(steps=STEPS)
def test_a_pod_is_pending_until_it_is_bound_or_deleted(steps):
    state = ClusterState()
    state.add_node(struct(a_node("n")))
    #: Key -> the pod's last version without a node, in the order in which the names appeared; UID -> each bound pod.
    unbound, bound = {}, {}
    for what, name, uid, version in steps:
        key, uid = f"default/{name}", name + uid
        known = unbound.get(key)
        match what:
            case "pending" if uid not in bound:
                unbound[key] = pod(name, uid[-1], version)
                state.pending.put(state.pod_info(unbound[key]))
            case "assume" if known is not None and state.placed(known.metadata.uid) is None:
                state.assume(state.pending.get(key), "n")
            case "forget" if known is not None and state.is_assumed(known.metadata.uid):
                state.forget(state.placed(known.metadata.uid))
            case "bound":
                bound[uid] = pod(name, uid[-1], version, nodeName="n")
                state.add_pod(bound[uid])
                unbound.pop(key, None)
            case "gone":
                bound.pop(uid, None)
                state.remove_pod(uid)
                if known is not None and known.metadata.uid == uid:
                    del unbound[key]
                    state.pending.remove(key)
        _agree(state, unbound, bound)


def _agree(state, unbound, bound):
    assert list(state.pending) == list(unbound)
    assert len(state.pending) == len(unbound)
    assert {info.key: info.pod for info in state.pending.values()} == unbound
    by_uid = {one.metadata.uid: one for one in unbound.values()}
    for uid in (name + uid for name in NAMES for uid in UIDS):
        info = state.pending.by_uid(uid)
        assert (info and info.pod) == by_uid.get(uid)
        assert info is None or info.key in state.pending
        if not state.is_assumed(uid):
            assert (state.placed(uid) is None) == (uid not in bound)
            assert state.newest(uid) == (by_uid | bound).get(uid)


def test_removing_an_unknown_pod_is_a_no_op():
    assert ClusterState().pending.remove("default/nobody") is None
