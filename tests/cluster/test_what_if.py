"""Trying changes leaves the state exactly as it was."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.api.selectors import compile_label_selector
from stowplan.cluster.state import ClusterState
from stowplan.cluster.terms import MatchCounts, PodTerm
from stowplan.cluster.what_if import WhatIf
from stowplan.testing import a_node, a_pod
from support.examples import examples
from support.scheduling.dump import dump, exact
from support.scheduling.worlds import ZONE, clusters, pods, state_of, struct


class BoomError(Exception):
    pass


def term(**labels):
    pod = struct(a_pod().spreads(ZONE, {"matchLabels": labels}))
    return PodTerm(((None, compile_label_selector(pod.spec.topology_spread_constraints[0].label_selector)),))


@st.composite
def moves(draw):
    return draw(
        st.lists(
            st.tuples(
                st.sampled_from(("place", "evict", "move", "in", "out", "term", "raise")),
                st.integers(0, 20),
                st.integers(0, 7),
            ),
            max_size=12,
        )
    )


def run(state, world, waiting, plan, names):
    """Carry out a plan; `in` opens a world inside the world, `out` leaves it, `raise` falls out of it."""
    while plan:
        what, which, where = plan.pop(0)
        placed = sorted(state.placed_pods(), key=lambda info: info.uid)
        if what == "place" and waiting:
            world.place(waiting.pop(which % len(waiting)), names[where % len(names)])
        elif what in ("evict", "move") and placed:
            info = placed[which % len(placed)]
            world.evict(info)
            if what == "move":
                world.place(info, names[where % len(names)])
        elif what == "in":
            try:
                with WhatIf(state) as inner:
                    run(state, inner, list(waiting), plan, names)
            except BoomError:
                pass
        elif what == "term":
            state.matches.slot(term(app="web", x=str(which)), state.pods)
        elif what == "raise":
            raise BoomError
        elif what == "out":
            return


@examples(150)
@given(clusters(most_nodes=4, most_pods=8), st.lists(pods("w"), max_size=4), moves(), st.booleans())
def test_leaving_restores_everything(cluster, waiting, plan, counted):
    state = state_of(*cluster)
    if counted:
        state.matches.slot(term(app="web"), state.pods)
    infos = [state.pod_info(struct(w | {"metadata": w["metadata"] | {"uid": f"w{i}"}})) for i, w in enumerate(waiting)]
    before, terms = exact(state), dict(state.matches.items())
    detached = state.matches.detached, state.held.detached
    names = [*state.table.row_of, "nowhere"]
    try:
        with WhatIf(state) as world:
            run(state, world, infos, list(plan), names)
    except BoomError:
        pass
    after = exact(state)
    # What was counted for the first time in there stays counted.
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
    """(versions, …, slots) as they were; versions may be new where readers' arrays did not see the changes undone."""
    assert before[-1].items() <= after[-1].items(), "every term has its slot"
    if restored:
        assert after[0][: len(before[0])] == before[0]
        assert after[1:-1] == before[1:-1]


def assert_counts_are_right(state, terms):
    fresh = MatchCounts(state.table.capacity)
    for shape in {info.shape for info in state.placed_pods()}:
        fresh.add_shape(shape)
    for t, slot in terms.items():
        counted = fresh.counts[fresh.slot(t, state.pods)]
        assert state.matches.counts[slot].tolist() == counted.tolist()


@given(clusters(most_nodes=4, most_pods=8), st.data())
def test_inside_it_is_as_if_it_were_real(cluster, data):
    """In between, the state equals one in which the changes were made for good."""
    state, real = state_of(*cluster), state_of(*cluster)
    placed = sorted(info.uid for info in state.placed_pods())
    gone = data.draw(st.lists(st.sampled_from(placed), unique=True)) if placed else []
    with WhatIf(state) as world:
        for uid in gone:
            world.evict(state.placed(uid))
            real.remove_pod(uid)
        assert dump(state, (ZONE,)) == dump(real, (ZONE,))


def test_a_world_in_which_nothing_happened_moves_nothing():
    state = state_of([a_node("a")], [a_pod("p").on("a")])
    before = exact(state)
    with WhatIf(state):
        pass
    assert exact(state) == before


def test_an_error_passes_through():
    state = state_of([a_node("a")], [a_pod("p").on("a")])
    before = exact(state)

    def evict_and_fail():
        with WhatIf(state) as world:
            world.evict(state.placed_pods()[0])
            raise BoomError

    with pytest.raises(BoomError):
        evict_and_fail()
    assert exact(state) == before


def test_what_was_remembered_inside_is_not_taken_for_real_afterwards():
    """A number that told "as it is in there" must not come back for another state of things."""
    avoider = a_pod("avoider").labels(app="x").avoids_pods(ZONE, {"matchLabels": {"app": "web"}})
    state = state_of([a_node("a").zone("z")], [])
    with WhatIf(state) as world:
        world.place(state.pod_info(struct(a_pod("other").avoids_pods(ZONE, {"matchLabels": {"app": "db"}}))), "a")
        inside = state.held.epoch
    state.add_pod(struct(avoider.on("a")))
    assert state.held.epoch != inside


def test_an_evicted_terms_slot_is_not_taken_for_what_it_was():
    """A slot that another term got in there has moved, though pods are as before."""
    state = ClusterState()
    state.matches = MatchCounts(state.table.capacity, limit=1)
    state.add_node(struct(a_node("a")))
    slot = state.matches.slot(term(app="web"), state.pods)
    before = state.matches.versions[slot]
    with WhatIf(state):
        assert state.matches.slot(term(app="db"), state.pods) == slot
    assert state.matches.versions[slot] != before


def test_a_reader_that_stood_inside_sees_that_everything_may_have_changed():
    state = state_of([a_node("a"), a_node("b")], [a_pod("p").on("a"), a_pod("q").on("b")])
    p, q = sorted(state.placed_pods(), key=lambda info: info.uid)
    with WhatIf(state) as world:
        world.evict(p)
        inside = state.changes.position
    state.remove_pod(q.uid)
    changed = state.changes.since(inside)
    assert changed is None or state.table.row_of["a"] in changed


@pytest.mark.parametrize("also", ["nothing else", "many new terms"])
def test_arrays_that_follow_the_counts_are_not_trusted_if_they_missed_the_undoing(also):
    """The only holder of a term leaves and comes back: the sums that a reader kept are not those of the slot."""
    avoider = a_pod("avoider").avoids_pods(ZONE, {"matchLabels": {"app": "web"}}).on("a")
    state = state_of([a_node("a").zone("z")], [avoider])
    column = state.table.label(ZONE)
    ((_, slot),) = state.held.items()
    kept, version = state.held.sum_by_domain(slot, column, 1), state.held.versions[slot]
    with WhatIf(state) as world:
        if also == "many new terms":
            for i in range(20):
                other = a_pod(f"o{i}").uid(f"o{i}").avoids_pods(ZONE, {"matchLabels": {"app": str(i)}})
                world.place(state.pod_info(struct(other)), "a")
        world.evict(state.placed("default-avoider-uid"))
    ((_, slot),) = state.held.items()
    now = state.held.sum_by_domain(slot, column, 1)
    assert now[column.code("z")] == 1
    assert now.tolist() == kept.tolist() or state.held.versions[slot] != version
