"""Plans of moves compared with making the moves in a new cluster for each, and scheduling there."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from stowplan.ask.rebalance import FreeNodes, Mend, Pack, RoomFor, Spread, rebalance
from stowplan.ask.rebalance.moves import Limits
from stowplan.ask.what_if import Put
from stowplan.ask.what_if.budgets import Budgets
from stowplan.ask.what_if.hypothetical_nodes import cordoned
from stowplan.ask.what_if.settling import put_back
from stowplan.kube.api.decode import decode_object
from support.examples import examples
from support.what_if.carried_out import Real, changed_node, without
from support.what_if.random_clusters import a_cluster, a_shaped_pod, claims_of

RANDOM = st.randoms(use_true_random=False)


def a_goal(drawn, random):
    kind = random.choice([Mend, Pack, FreeNodes, Spread, RoomFor])
    if kind is FreeNodes:
        return FreeNodes(random.randint(1, 3))
    if kind is RoomFor:
        pod, shape = a_shaped_pod("new", random)
        if shape in ("gated", "other scheduler"):
            return Mend()
        pod["metadata"]["ownerReferences"] = []
        return RoomFor(Put((*map(decode_object, claims_of(pod, drawn, random)), decode_object(pod))))
    return kind()


@examples(40)
@given(RANDOM)
def test_each_pod_goes_where_the_plan_says(random):
    drawn = a_cluster(random)
    cluster = drawn.cluster()
    goal = a_goal(drawn, random)
    at_once = random.choice([None, 1, 2])
    before = cluster.state.dump()
    found = rebalance(cluster, goal, limits=Limits(at_once=at_once, at_once_per_owner=random.choice([None, 1])))
    assert cluster.state.dump() == before
    assert not {move.pod for move in found.moves} & {record.pod for record in found.kept}
    assert len({move.pod for move in found.moves}) == len(found.moves)
    objects, pods = cluster.state.everything(), {info.key: info for info in cluster.state.placed_pods()}
    for name in found.cordon:
        objects = changed_node(objects, name, cordoned)
    real = Real(drawn, objects)
    budgets, step = Budgets(cluster), []
    for move in found.moves:
        if step and move.step > step[0].step:
            for earlier in step:
                budgets.mark_recreated(pods[earlier.pod])
            step = []
        step.append(move)
        assert at_once is None or len(step) <= at_once
        assert budgets.refusal(pods[move.pod]) is None
        budgets.evicted(pods[move.pod])
        objects = real.cluster.state.everything()
        if move.cordons:
            objects = changed_node(objects, move.from_, cordoned)
        pod = next(info.pod for info in real.cluster.state.placed_pods() if info.key == move.pod)
        assert pod.spec.node_name == move.from_
        real.cluster = drawn.cluster(without(objects, [pod]))
        real.places([pod])
        assert real.moves[-1] == (move.pod, move.to)
    assert not real.stranded
    assert not real.displaced


@examples(20)
@given(RANDOM)
def test_no_goal_gets_worse(random):
    drawn = a_cluster(random)
    goal = random.choice([Pack(), FreeNodes(2), Spread()])
    found = rebalance(drawn.cluster(), goal)
    if isinstance(goal, Spread):
        assert found.after.unevenness <= found.before.unevenness
        assert not found.cordon
        assert {move.from_ for move in found.moves if move.cordons} == set(found.uncordon)
    else:
        emptied = Counter(move.from_ for move in found.moves)
        assert found.after.empty_nodes == found.before.empty_nodes + len(emptied)
        assert found.met or found.after.empty_nodes < 2


@examples(40)
@given(RANDOM)
def test_what_was_mended_is_not_mended_again(random):
    drawn = a_cluster(random)
    cluster = drawn.cluster()
    found = rebalance(cluster, Mend())
    with cluster.transaction():
        for move in found.moves:
            pod = cluster.pod(move.pod).pod
            cluster.evict(move.pod)
            (key,) = put_back(cluster, [pod])
            cluster.place(key, move.to)
        again = rebalance(cluster, Mend())
    assert not again.moves
