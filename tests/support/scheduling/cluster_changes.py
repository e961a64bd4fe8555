"""Random changes of a ClusterState next to a plain model of its expected contents."""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from stowplan.kube.api.label_selectors import compile_label_selector
from stowplan.scheduler.cluster.node_table import NodeTable
from stowplan.scheduler.cluster.pod_table import PodTable
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.cluster.terms import HeldCounts, MatchCounts, PodTerm
from stowplan.testing import a_pod
from support.scheduling.dump import dump
from support.scheduling.worlds import HOST, MOMENTS, RACK, SELECTORS, ZONE, bound, nodes, pods, struct

NODE_NAMES = tuple(f"n{i}" for i in range(7))
POD_NAMES = tuple(f"p{i}" for i in range(12))
#: Few nodes, so that their lists of pods become long.
POD_NODES = st.sampled_from(("n0", "n1", "n2", "n0", "nowhere"))
KEYS = (ZONE, HOST, RACK, "disk", "nobody")


def compiled(matching):
    pod = struct(a_pod().spreads(ZONE, matching))
    return compile_label_selector(pod.spec.topology_spread_constraints[0].label_selector)


TERMS = tuple(
    PodTerm(((namespaces, compiled(matching)),), live_only=live_only)
    for namespaces in (None, frozenset(("default",)), frozenset(("blue", "lost")))
    for matching in SELECTORS
    if matching is not None
    for live_only in (False, True)
)
JOINT = PodTerm(TERMS[0].clauses + TERMS[7].clauses)


def small_state():
    """Initial sizes are small, so that columns have to grow."""
    state = ClusterState()
    state.table, state.pods = NodeTable(2), PodTable(2)
    state.matches, state.held = MatchCounts(2), HeldCounts(2)
    return state


class Changes(RuleBasedStateMachine):
    """The state under test and its expected contents: objects by name, and the pods of each node in order."""

    def __init__(self):
        super().__init__()
        self.state = small_state()
        self.nodes, self.pods, self.assumed = {}, {}, {}
        self.terms, self.keys, self.summed = [], [], set()
        #: Node name -> UIDs in the node's order; a removed pod's position is filled with the last one.
        self.order = {}

    # -- nodes

    @rule(node=nodes(names=NODE_NAMES))
    def put_node(self, node):
        self.state.add_node(struct(node))
        self.nodes[node["metadata"]["name"]] = node

    @precondition(lambda self: self.nodes)
    @rule(data=st.data())
    def change_node(self, data):
        name = data.draw(st.sampled_from(sorted(self.nodes)))
        node = {part: dict(values) if isinstance(values, dict) else values for part, values in self.nodes[name].items()}
        fresh = data.draw(nodes(name))
        part = data.draw(st.sampled_from(("metadata", "spec", "status")))
        node[part] = fresh[part]
        self.state.add_node(struct(node))
        self.nodes[name] = node

    @rule(name=st.sampled_from(NODE_NAMES))
    def remove_node(self, name):
        self.state.remove_node(name)
        self.nodes.pop(name, None)

    @rule(names=st.lists(st.sampled_from(NODE_NAMES), unique=True))
    def remove_nodes(self, names):
        self.state.remove_nodes(names)
        for name in names:
            self.nodes.pop(name, None)

    # -- pods

    @rule(pod=pods(names=POD_NAMES), node=POD_NODES, late=st.booleans())
    def put_pod(self, pod, node, late):
        """Adds a pod, updates it, or moves it; the node may not exist."""
        pod = bound(pod, node, status={"startTime": MOMENTS[0]} if late else {})
        self._put(pod)

    @precondition(lambda self: self.nodes)
    @rule(
        data=st.data(),
        like=pods(),
        names=st.lists(st.sampled_from(POD_NAMES), unique=True),
        terminating=st.booleans(),
        grouped=st.booleans(),
    )
    def place_many_pods(self, data, like, names, terminating, grouped):
        """Places new pods, most of them equal, at once."""
        if grouped:
            like = {**like, "spec": {**like["spec"], "schedulingGroup": {"podGroupName": "gang"}}}
        placed, nodes = [], []
        for uid in names:
            unknown = self.state.pending.by_uid(uid) is None and not self.state.nominator.node_of(uid)
            if uid in self.pods or uid in self.assumed or not unknown:
                continue
            node = data.draw(st.sampled_from(sorted(self.nodes)))
            more = {"deletionTimestamp": MOMENTS[1]} if terminating and len(placed) != 1 else {}
            pod = bound(like, node, metadata={**like["metadata"], "name": uid, "uid": uid, **more})
            self.pods[uid] = pod
            self.order.setdefault(node, []).append(uid)
            placed.append(self.state.pod_info(struct(pod)))
            nodes.append(node)
        self.state.place_all(placed, nodes)

    def _put(self, pod):
        uid, node = pod["metadata"]["uid"], pod["spec"]["nodeName"]
        self.state.add_pod(struct(pod))
        # Even a no-op update moves the pod to the end of its node's list.
        self._take_off(uid)
        self.order.setdefault(node, []).append(uid)
        self.pods[uid] = pod
        self.assumed.pop(uid, None)

    @precondition(lambda self: self.pods)
    @rule(data=st.data(), change=st.sampled_from(("terminating", "labels", "same", "moved", "namespace stays")))
    def change_pod(self, data, change):
        uid = data.draw(st.sampled_from(sorted(self.pods)))
        pod = self.pods[uid]
        metadata, node = pod["metadata"], pod["spec"]["nodeName"]
        if change == "terminating":
            metadata = metadata | {"deletionTimestamp": MOMENTS[1]}
        elif change == "labels":
            metadata = metadata | {"labels": {"app": data.draw(st.sampled_from(("web", "db"))), "new": "1"}}
        elif change == "same":
            metadata = metadata | {"annotations": {"seen": "yes"}}
        elif change == "moved":
            node = data.draw(st.sampled_from(NODE_NAMES))
        self._put(bound(pod, node, metadata=metadata))

    @precondition(lambda self: self.pods or self.assumed)
    @rule(data=st.data())
    def remove_pod(self, data):
        uid = data.draw(st.sampled_from(sorted({**self.pods, **self.assumed})))
        self.state.remove_pod(uid)
        self._drop(uid)

    @rule()
    def remove_unknown_pod(self):
        self.state.remove_pod("nobody")

    @rule(pod=pods(names=POD_NAMES), node=POD_NODES)
    def assume(self, pod, node):
        uid = pod["metadata"]["uid"]
        if uid in self.pods or uid in self.assumed:
            with pytest.raises(ValueError, match="is in the cache, so can't be assumed"):
                self.state.assume(self.state.pod_info(struct(pod)), node)
            return
        self.state.assume(self.state.pod_info(struct(pod)), node)
        self.assumed[uid] = (pod, node)
        self.order.setdefault(node, []).append(uid)

    @precondition(lambda self: self.assumed)
    @rule(data=st.data(), node=st.sampled_from((None, *NODE_NAMES[:2])))
    def confirm(self, data, node):
        """The API server confirms an assumed pod, perhaps on another node."""
        pod, assumed_on = self.assumed[data.draw(st.sampled_from(sorted(self.assumed)))]
        self._put(bound(pod, node or assumed_on))

    @precondition(lambda self: self.assumed)
    @rule(data=st.data())
    def forget(self, data):
        uid = data.draw(st.sampled_from(sorted(self.assumed)))
        self.state.forget(self.state.pod_info(struct(self.assumed[uid][0])))
        self._drop(uid)

    def _drop(self, uid):
        self._take_off(uid)
        self.pods.pop(uid, None)
        self.assumed.pop(uid, None)

    def _take_off(self, uid):
        for listed in self.order.values():
            if uid in listed:
                at = listed.index(uid)
                listed[at] = listed[-1]
                listed.pop()

    @precondition(lambda self: not self.assumed)
    @rule()
    def copy(self):
        copy = small_state()
        for node in self.nodes.values():
            copy.add_node(struct(node))
        copy.place_copies(self.state)
        for term in dict(self.state.matches.items()):
            copy.matches.slot(term, copy.pods)
        assert dump(copy) == dump(self.state)
        assert [info.uid for info in copy.placed_pods()] == [info.uid for info in self.state.placed_pods()]

    # -- readers

    @rule(term=st.sampled_from((*TERMS, JOINT)))
    def ask_for_term(self, term):
        self.state.matches.slot(term, self.state.pods)
        self.terms.append(term)

    @rule(key=st.sampled_from(KEYS))
    def ask_for_label(self, key):
        self.state.table.label(key)
        self.keys.append(key)

    @rule(key=st.sampled_from(KEYS))
    def ask_for_sums(self, key):
        self.summed.add(key)

    # -- what must hold

    @invariant()
    def sums_by_domain_follow_the_counts(self):
        table = self.state.table
        for key in sorted(self.summed):
            column = table.label(key)
            for matrix in (self.state.matches, self.state.held):
                for term, slot in matrix.items():
                    plain = [0] * column.size
                    for row in table.row_of.values():
                        plain[column.codes[row]] += int(matrix.counts[slot, row])
                    plain[0] = 0
                    assert matrix.sum_by_domain(slot, column, table.n).tolist() == plain, (key, term)

    def rebuilt(self):
        fresh = ClusterState()
        for node in self.nodes.values():
            fresh.add_node(struct(node))
        for pod in self.pods.values():
            fresh.add_pod(struct(pod))
        for pod, node in self.assumed.values():
            fresh.assume(fresh.pod_info(struct(pod)), node)
        for term in dict(self.state.matches.items()):
            fresh.matches.slot(term, fresh.pods)
        return fresh

    @invariant()
    def equals_a_rebuild(self):
        got, want = dump(self.state, self.keys), dump(self.rebuilt(), self.keys)
        for part in want:
            assert got[part] == want[part], part

    @invariant()
    def groups_know_their_placed_pods(self):
        assert list(self.state.pod_groups.problems(self.state._placed.values())) == []

    @invariant()
    def no_term_is_lost(self):
        assert {term for term, _ in self.state.matches.items()} == set(self.terms)

    @invariant()
    def nodes_list_their_pods_in_order(self):
        for name, row in self.state.table.row_of.items():
            listed = self.state.row_pods[row]
            assert [info.uid for info in listed] == self.order.get(name, [])
            order = [int(self.state.pods.order[info.slot]) for info in listed]
            assert order == sorted(order), "the pod table's column has the same order"
