"""A transaction restores the state exactly; inside it, changes look real."""

from copy import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from stowplan.kube.api.label_selectors import compile_label_selector
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.cluster.terms import MatchCounts, PodTerm
from stowplan.scheduler.cluster.transaction import CopiedAtBeginning, TransactionError
from stowplan.scheduler.cluster.view import Nodes, SumsColumn
from stowplan.testing import a_node, a_pod
from support.examples import times
from support.scheduling.cluster_changes import POD_NAMES, POD_NODES, Changes
from support.scheduling.dump import dump, exact, label_codes
from support.scheduling.worlds import ZONE, clusters, lookup_objects, pods, state_of, struct


class BoomError(Exception):
    pass


def term(**labels):
    pod = struct(a_pod().spreads(ZONE, {"matchLabels": labels}))
    return PodTerm(((None, compile_label_selector(pod.spec.topology_spread_constraints[0].label_selector)),))


def sums(nodes):
    return nodes.requested(0) + nodes.pod_count()


class Transactions(Changes):
    """All changes of `Changes`, plus nominations and objects, in nested transactions."""

    def __init__(self):
        super().__init__()
        self.open = []
        self.sums = SumsColumn()

    # -- more changes

    @rule(pod=pods(names=POD_NAMES), node=POD_NODES)
    def nominate(self, pod, node):
        self.state.nominator.add(self.state.pod_info(struct(pod)), node)

    @rule(pod=pods(names=POD_NAMES))
    def remove_nomination(self, pod):
        self.state.nominator.delete(pod["metadata"]["uid"])

    @rule(pod=pods(names=POD_NAMES))
    def put_pending(self, pod):
        self.state.pending.put(self.state.pod_info(struct(pod)))

    @rule(name=st.sampled_from(POD_NAMES))
    def remove_pending(self, name):
        self.state.pending.remove(f"default/{name}")

    @rule(obj=lookup_objects(), there=st.booleans())
    def put_or_remove_object(self, obj, there):
        (self.state.put_object if there else self.state.remove_object)(struct(obj))

    @rule()
    def read_a_column_of_sums(self):
        nodes = Nodes(self.state)
        assert self.sums.of(nodes, ("cpu",), sums).tolist() == sums(nodes).tolist()

    # -- transactions

    @precondition(lambda self: len(self.open) < 4)
    @rule()
    def begin(self):
        state = self.state
        model = [copy(part) for part in (self.nodes, self.pods, self.assumed, self.keys, self.summed)]
        order = {name: list(listed) for name, listed in self.order.items()}
        terms = dict(state.matches.items())
        detached = state.matches.detached, state.held.detached
        before = exact(state), label_codes(state, self.keys), state.version, on_nodes(state)
        transaction = state.transaction()
        transaction.__enter__()
        self.open.append((transaction, model, order, terms, detached, before))

    @precondition(lambda self: self.open)
    @rule()
    def undo(self):
        transaction, model, self.order, terms, detached, (before, codes, version, _) = self.open.pop()
        numbers = version_numbers(self.state)
        transaction.__exit__(None, None, None)
        self.nodes, self.pods, self.assumed, _, _ = model
        state = self.state
        assert label_codes(state, codes) == codes
        assert_restored(state, before, terms, detached)
        assert state.version == version
        assert all(now >= then for now, then in zip(version_numbers(state), numbers, strict=True)), (
            "versions are not reused"
        )

    @precondition(lambda self: self.open)
    @rule()
    def commit(self):
        transaction, *_ = self.open.pop()
        transaction.commit()
        transaction.__exit__(None, None, None)

    @precondition(lambda self: self.open)
    @rule()
    def changed_nodes_are_reported(self):
        transaction, _, _, _, _, (before, _, _, on_nodes_before) = self.open[-1]
        changed = transaction.changed_nodes()
        if changed is None:
            return
        nodes_before, nodes_now = before["dump"]["nodes"], dump(self.state)["nodes"]
        on_nodes_now = on_nodes(self.state)
        for name in {*nodes_before, *nodes_now}:
            then, now = nodes_before.get(name), nodes_now.get(name)
            same = node_contents(then) == node_contents(now) and on_nodes_before.get(name) == on_nodes_now.get(name)
            assert name in changed or same

    def teardown(self):
        while self.open:
            self.undo()


@pytest.mark.slow
class TestTransactions(Transactions.TestCase):
    settings = settings(max_examples=times(50), stateful_step_count=40)


def node_contents(node):
    """A node's dump without counts of terms that no pod holds or that were never queried."""
    return node and {**node, "matches": None, "held": {held: count for held, count in node["held"].items() if count}}


def on_nodes(state):
    """Node -> its pods in order, as identical objects, and the pods nominated to it."""
    return {
        name: (
            [(info.uid, id(info.pod), state.is_assumed(info.uid)) for info in state.row_pods[row]],
            [(info.uid, id(info.pod)) for info in state.nominator.on(name)],
        )
        for name, row in state.table.row_of.items()
    }


def version_numbers(state):
    """The last number assigned to each version."""
    return (
        state.table._clock,
        state.pods._clock,
        state.objects._clock,
        state.changes._last,
        state.matches._clock,
        state.held._clock,
        state.nominator._changes._last,
    )


def assert_restored(state, before, terms, detached):
    """`before`: the result of `exact`; `terms`, `detached`: the terms counted then, and the detached arrays."""
    before, after = dict(before), exact(state)
    # Terms that were first counted inside stay counted.
    registered = {t: slot for t, slot in state.matches.items() if t not in terms}
    for node in after["dump"]["nodes"].values():
        node["matches"] = {t: count for t, count in node["matches"].items() if t in terms}
    assert_versions_are_restored(before.pop("matches"), after.pop("matches"), state.matches.detached == detached[0])
    held, was_held = after.pop("held"), before.pop("held")
    assert_versions_are_restored(was_held, held, state.held.detached == detached[1])
    for part in before:
        assert after[part] == before[part], part
    assert_counts_are_right(state, registered)


def assert_versions_are_restored(before, after, restored):
    """(versions, …, slots) as before; versions may be new where readers' arrays did not see changes being undone."""
    assert before[-1].items() <= after[-1].items(), "every term has its slot"
    if restored:
        assert after[0][: len(before[0])] == before[0]
        assert after[1:-1] == before[1:-1]


def assert_counts_are_right(state, terms):
    fresh = MatchCounts(state.table.capacity)
    for shape in {info.shape for info in state.placed_pods()}:
        fresh.add_shape(shape)
    for t, slot in terms.items():
        # A new slot may replace the array of counts.
        fresh_slot = fresh.slot(t, state.pods)
        counted = fresh.counts[fresh_slot]
        assert state.matches.counts[slot].tolist() == counted.tolist()


@given(clusters(most_nodes=4, most_pods=8), st.data())
def test_inside_a_transaction_changes_are_real(cluster, data):
    """In between, the state equals one in which the changes were made permanently."""
    state, real = state_of(*cluster), state_of(*cluster)
    placed = sorted(info.uid for info in state.placed_pods())
    gone = data.draw(st.lists(st.sampled_from(placed), unique=True)) if placed else []
    with state.transaction():
        for uid in gone:
            state.remove_pod(uid)
            real.remove_pod(uid)
        assert dump(state, (ZONE,)) == dump(real, (ZONE,))


def test_an_empty_transaction_changes_no_version():
    state = state_of([a_node("a")], [a_pod("p").on("a")])
    before = exact(state)
    with state.transaction():
        pass
    assert exact(state) == before


def test_an_error_passes_through():
    state = state_of([a_node("a")], [a_pod("p").on("a")])
    before = exact(state)

    def evict_and_fail():
        with state.transaction():
            state.remove_pod(state.placed_pods()[0].uid)
            raise BoomError

    with pytest.raises(BoomError):
        evict_and_fail()
    assert exact(state) == before


def test_version_numbers_seen_inside_are_not_reused_afterwards():
    """A version number seen inside must not come back for a different state."""
    avoider = a_pod("avoider").labels(app="x").avoids_pods(ZONE, {"matchLabels": {"app": "web"}})
    state = state_of([a_node("a").zone("z")], [])
    with state.transaction():
        state.assume(state.pod_info(struct(a_pod("other").avoids_pods(ZONE, {"matchLabels": {"app": "db"}}))), "a")
        inside = state.held.epoch
    state.add_pod(struct(avoider.on("a")))
    assert state.held.epoch != inside


def test_an_evicted_terms_slot_counts_as_changed():
    """A slot that was reassigned inside counts as changed, although pods are as before."""
    state = ClusterState()
    state.matches = MatchCounts(state.table.capacity, limit=1)
    state.add_node(struct(a_node("a")))
    slot = state.matches.slot(term(app="web"), state.pods)
    before = state.matches.versions[slot]
    with state.transaction():
        assert state.matches.slot(term(app="db"), state.pods) == slot
    assert state.matches.versions[slot] != before


def test_a_reader_with_a_position_inside_must_reread_everything():
    state = state_of([a_node("a"), a_node("b")], [a_pod("p").on("a"), a_pod("q").on("b")])
    p, q = sorted(state.placed_pods(), key=lambda info: info.uid)
    with state.transaction():
        state.remove_pod(p.uid)
        inside = state.changes.position
    state.remove_pod(q.uid)
    changed = state.changes.since(inside)
    assert changed is None or state.table.row_of["a"] in changed


@pytest.mark.slow
def test_a_transaction_of_more_changes_than_are_logged_is_undone_exactly():
    state = state_of([a_node("a"), a_node("b"), a_node("c")], [a_pod("p").on("a")])
    (p,) = state.placed_pods()
    version, position = state.version, state.changes.position
    with state.transaction() as transaction:
        for i in range(10_000):
            state.remove_pod(p.uid)
            state.assume(p, "ab"[i % 2])
        assert transaction.changed_nodes() == {"a", "b"}
    assert state.version == version
    assert state.changes.since(position) == []


def test_moving_a_pod_to_the_end_of_its_list_changes_its_node():
    pods = [a_pod(name).on("a") for name in "pq"]
    state = state_of([a_node("a"), a_node("b")], pods)
    with state.transaction() as transaction:
        state.add_pod(struct(pods[0]))
        assert [info.key for info in state.row_pods[0]] == ["default/q", "default/p"]
        assert transaction.changed_nodes() == {"a"}


@pytest.mark.parametrize("also", ["nothing else", "many new terms"])
def test_arrays_derived_from_counts_are_dropped_if_they_missed_the_undo(also):
    """The only pod with a term leaves and comes back: the sums that a reader kept are not those of the new slot."""
    avoider = a_pod("avoider").avoids_pods(ZONE, {"matchLabels": {"app": "web"}}).on("a")
    state = state_of([a_node("a").zone("z")], [avoider])
    column = state.table.label(ZONE)
    ((_, slot),) = state.held.items()
    kept, version = state.held.sum_by_domain(slot, column, 1), state.held.versions[slot]
    with state.transaction():
        if also == "many new terms":
            for i in range(20):
                other = a_pod(f"o{i}").uid(f"o{i}").avoids_pods(ZONE, {"matchLabels": {"app": str(i)}})
                state.assume(state.pod_info(struct(other)), "a")
        state.remove_pod("default-avoider-uid")
    ((_, slot),) = state.held.items()
    now = state.held.sum_by_domain(slot, column, 1)
    assert now[column.code("z")] == 1
    assert now.tolist() == kept.tolist() or state.held.versions[slot] != version


class Part(CopiedAtBeginning):
    """A number; copying or restoring it can be made to fail."""

    def __init__(self, number=0):
        super().__init__(self.copied, self.restore)
        self.number, self.failing = number, ""

    def copied(self):
        if self.failing == "begin":
            raise BoomError
        return self.number

    def restore(self, number):
        if self.failing == "undo":
            raise BoomError
        self.number = number


@pytest.mark.parametrize("failing", ["begin", "undo"])
def test_a_failing_participant_does_not_prevent_restoring_the_others(failing):
    state = state_of([a_node("a")], [a_pod("p").on("a")])
    first, bad, last = Part(1), Part(), Part(3)
    for name, part in (("first", first), ("bad", bad), ("last", last)):
        state.transactions.register(name, part)
    before = exact(state)
    bad.failing = failing

    def change():
        with state.transaction():
            state.remove_pod(state.placed_pods()[0].uid)
            first.number = last.number = 9

    if failing == "begin":
        with pytest.raises(BoomError):
            change()
    else:
        with pytest.raises(TransactionError, match='"bad" failed to undo the changes of a transaction'):
            change()
    assert exact(state) == before
    assert (first.number, last.number, state.transactions.depth) == (1, 3, 0)


def test_a_participant_takes_over_the_name_of_an_earlier_one():
    state, old, new = ClusterState(), Part(), Part()
    state.transactions.register("part", old)
    state.transactions.register("part", new)
    with state.transaction():
        old.number = new.number = 1
        with pytest.raises(TransactionError, match='"part" cannot be registered while a transaction is open'):
            state.transactions.register("part", old)
    assert (old.number, new.number) == (1, 0)


def test_leaving_an_outer_transaction_first_undoes_the_inner_ones_and_raises():
    state = state_of([a_node("n").obj()], [a_pod("p").on("n").obj()])
    before = exact(state)
    outer, inner = state.transaction(), state.transaction()
    outer.__enter__()
    state.remove_pod(state.placed_pods()[0].uid)
    inner.__enter__()
    state.remove_node("n")
    with pytest.raises(TransactionError, match="left before those inside it"):
        outer.__exit__(None, None, None)
    assert exact(state) == before
    assert state.transactions.depth == 0
