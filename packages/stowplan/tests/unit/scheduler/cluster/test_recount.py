"""The recount finds inconsistencies of a ClusterState: each invariant is broken by hand once; otherwise it finds
none."""

import numpy as np
import pytest
from hypothesis import settings
from hypothesis.stateful import invariant

from stowplan.scheduler.cluster.recount import problems_of
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.testing import a_node, a_pod
from support.examples import times
from support.scheduling.cluster_changes import TERMS, Changes
from support.scheduling.worlds import ZONE, state_of, struct

WEB = TERMS[0]


class Recounted(Changes):
    @invariant()
    def no_problem_is_found(self):
        assert problems_of(self.state) == []


@pytest.mark.slow
class TestAnyChanges(Recounted.TestCase):
    settings = settings(max_examples=times(50), stateful_step_count=40)


def small_cluster():
    """Two nodes and a deleted one; pods with everything that is counted; pending, assumed and nominated pods."""
    nodes = [a_node("a").zone("x").allocatable(cpu="4"), a_node("b").zone("y").allocatable(cpu="4")]
    pods = [
        a_pod("web").uid("web").labels(app="web").requests(cpu="1", memory="1Gi").host_port(80).on("a"),
        a_pod("db").uid("db").labels(app="db").avoids_pods(ZONE, {"matchLabels": {"app": "db"}}).on("b"),
        a_pod("disk").uid("disk").spec(volumes=[VOLUME, CLAIM]).on("b"),
        a_pod("lost").uid("lost").on("gone"),
    ]
    state = state_of(nodes, pods)
    for pod in (a_pod("assumed").uid("assumed"), a_pod("nominated").uid("nominated")):
        state.pending.put(state.pod_info(struct(pod)))
    state.assume(state.pending.by_uid("assumed"), "b")
    state.nominator.add(state.pending.by_uid("nominated"), "a")
    slot = state.matches.slot(WEB, state.pods)
    state.matches.sum_by_domain(slot, state.table.label(ZONE), state.table.n)
    return state


VOLUME = {"name": "d", "gcePersistentDisk": {"pdName": "d1"}}
CLAIM = {"name": "c", "persistentVolumeClaim": {"claimName": "data"}}


def test_no_problem_is_found():
    assert problems_of(small_cluster()) == []


@pytest.mark.parametrize("groups", [("g1", "g2"), ("g1", None), (None, "g1")])
def test_a_pod_without_uid_may_be_replaced_by_a_member_of_another_group(groups):
    """Files may hold another pod of a name; in the API the group of a pod never changes."""
    state = state_of([a_node("n")])
    for group in groups:
        pod = a_pod("a").uid("").spec(schedulingGroup=group and {"podGroupName": group})
        state.pending.put(state.pod_info(struct(pod)))
    assert problems_of(state) == []
    for group in groups:
        pod = a_pod("a").uid("").spec(schedulingGroup=group and {"podGroupName": group})
        state.add_pod(struct(pod.on("n")))
    assert problems_of(state) == []
    state.remove_pod("default/a")
    assert not any(state.pod_groups.known(f"default/{group}") for group in groups)


def test_no_problem_is_found_after_loading_a_dump():
    fresh = ClusterState()
    fresh.load(small_cluster().dump())
    assert problems_of(fresh) == []


def placed(state, uid):
    return state.placed(uid)


def put(array, index, value):
    array[index] = value


BREAKS = [
    # nodes
    pytest.param(
        lambda state: state.table.row_of.pop("a"),
        "the nodes are on the rows {'a': 0, 'b': 1}, the table finds them on {'b': 1}",
        id="row of a node",
    ),
    pytest.param(
        lambda state: put(state.table.valid, 0, False), "rows [1] are valid, nodes are on [0, 1]", id="valid rows"
    ),
    pytest.param(lambda state: setattr(state.table, "count", 3), "3 nodes are counted, 2 are there", id="count"),
    pytest.param(
        lambda state: state.table._free.append(1), "rows [1] are listed as free, unused are []", id="free rows"
    ),
    # where pods are
    pytest.param(
        lambda state: state.row_pods[0].clear(),
        "pod default/web (web): on node a, which does not list it",
        id="not listed",
    ),
    pytest.param(
        lambda state: state.row_pods[1].append(placed(state, "web")),
        "pod default/web (web): listed by node a, and by node b",
        id="listed twice",
    ),
    pytest.param(
        lambda state: state._placed.pop("web"),
        "pod default/web (web): listed by node a, but it is not placed",
        id="not placed",
    ),
    pytest.param(
        lambda state: setattr(placed(state, "web"), "node_name", "b"),
        "pod default/web: listed by node a (row 0), on b (row 0)",
        id="another node",
    ),
    pytest.param(
        lambda state: state.row_pods[1].reverse(),
        "node b: lists its pods in another order than the pod table, which has [4, 2, 1]",
        id="order",
    ),
    pytest.param(lambda state: state._on_unknown_nodes.update(nobody=[]), "nobody: kept without pods", id="no ghosts"),
    pytest.param(
        lambda state: state._on_unknown_nodes.update(a=state._on_unknown_nodes["gone"]),
        "node a: there, and its pods are kept as those of an unknown node",
        id="node of ghosts",
    ),
    pytest.param(
        lambda state: state._placed.update(other=state._placed.pop("web")),
        "pod default/web (web): placed under the UID other",
        id="UID",
    ),
    pytest.param(
        lambda state: put(state.pods.infos, placed(state, "web").slot, None),
        "pod default/web (web): not in its slot 0 of the pod table",
        id="slot",
    ),
    pytest.param(
        lambda state: put(state.pods.priority, 0, 7),
        "pod default/web (web): priority is 0, 7 in the pod table",
        id="column of pods",
    ),
    pytest.param(
        lambda state: state.pods.infos.append(placed(state, "web")),
        "6 slots of the pod table are taken, by 5 placed pods",
        id="slots",
    ),
    pytest.param(lambda state: state._assumed.add("nobody"), "pod nobody: assumed, but on no node", id="assumed"),
    # what is derived
    pytest.param(
        lambda state: setattr(placed(state, "web").shape, "refs", 2),
        "shape 0: 1 placed pods have it, 2 are counted",
        id="holders of a shape",
    ),
    pytest.param(
        lambda state: state._columns.update({9: None}),
        "shape 9: counted, though no placed pod has it",
        id="shape without pods",
    ),
    pytest.param(
        lambda state: put(state.table.pod_count, 0, 2),
        "node a: pod_count is 2, a recount of its pods says 1",
        id="pods",
    ),
    pytest.param(
        lambda state: put(state.table.requested, (0, 0), 500),
        "node a: requested cpu is 500, a recount of its pods says 1000",
        id="requested",
    ),
    pytest.param(
        lambda state: put(state.table.non_zero_requested, (1, 0), 0),
        "node a: non-zero requested memory is 0, a recount of its pods says 1073741824",
        id="non-zero requested",
    ),
    pytest.param(
        lambda state: put(state.table.pod_count, 5, 1),
        "node (none, row 5): pod_count is 1, a recount of its pods says 0",
        id="a row without a node",
    ),
    pytest.param(
        lambda state: state.ports._rows.clear(),
        "host ports by row: 0 has None, a recount says Counter({('0.0.0.0', 'TCP', 80): 1})",
        id="ports",
    ),
    pytest.param(
        lambda state: state.claim_users.update(["default/data"]),
        "claims in use: default/data has 2, a recount says 1",
        id="claims",
    ),
    # pods without a node
    pytest.param(
        lambda state: state._assumed.discard("assumed"),
        "pod default/assumed (assumed): pending, and on node b without being assumed",
        id="pending and placed",
    ),
    pytest.param(
        lambda state: state.pending.remove("default/nominated"),
        "pod default/nominated (nominated): nominated to node a, but it is not pending",
        id="nominated",
    ),
    pytest.param(
        lambda state: state.pending._by_uid.pop("nominated"),
        "pod default/nominated: pending, but it is not what is found by its UID nominated",
        id="pending by UID",
    ),
    pytest.param(
        lambda state: state.pending._by_uid.update(nobody=None), "2 pending pods by name, 3 by UID", id="pending pods"
    ),
    pytest.param(
        lambda state: state.pending._by_key.update(other=state.pending._by_key.pop("default/nominated")),
        "pod default/nominated: pending under the name other",
        id="pending by name",
    ),
    pytest.param(
        lambda state: state.nominator._pods.update(b=state.nominator.on("a")),
        "pod default/nominated (nominated): nominated to node a, and to b",
        id="nominated twice",
    ),
    pytest.param(
        lambda state: state.nominator._pods.update(b=[]), "node b: listed without nominated pods", id="no nominations"
    ),
    pytest.param(
        lambda state: state.nominator._node_of.update(nominated="b"),
        "pod nominated: nominated to node b, and listed by a",
        id="nominated by node",
    ),
]


@pytest.mark.parametrize(("breaks", "text"), BREAKS)
def test_an_inconsistency_is_found(breaks, text):
    state = small_cluster()
    breaks(state)
    assert text in problems_of(state)


def test_terms_and_their_sums():
    state = small_cluster()
    slot = state.matches.slot(WEB, state.pods)
    state.matches.counts[slot, 1] = 3
    [held] = [term for term, _ in state.held.items()]
    state.held.counts[dict(state.held.items())[held], 1] = 0
    found = problems_of(state)
    assert f"node b: pods that match {WEB} is 3, a recount of its pods says 0" in found
    assert f"node b: pods that hold {held} is 0, a recount of its pods says 1" in found
    assert any(f"MatchCounts, slot {slot}, sums by {ZONE}" in text for text in found)


def test_held_terms():
    state = small_cluster()
    [(held, slot)] = state.held.items()
    del state.held._slots[held]
    assert f"{held}: not counted, though placed pods hold it" in problems_of(state)
    state.held._slots = {held: slot, WEB: slot}
    assert f"{WEB}: counted, though no placed pod holds it" in problems_of(state)


def test_disks():
    state = small_cluster()
    state.disks._rows.clear()
    assert any(text.startswith("disks: ") for text in problems_of(state))


def test_only_some_rows_of_a_column_are_reported():
    state = small_cluster()
    state.table.pod_count += np.int64(7)
    assert sum("pod_count" in text for text in problems_of(state)) == 5
