import pytest

from stowplan_cluster.reconcile.stateful_sets import Moves, Seen, is_complete, next_moves
from stowplan_cluster.reconcile.views import Ordinals, RollingUpdate, StatefulSet, StatefulSetSpec, UpdateStrategy

FINE = Seen(ready=True, available=True)
OLD = Seen(ready=True, available=True, outdated=True)
STARTING = Seen()
LEAVING = Seen(ready=True, terminating=True)
FAILED = Seen(finished=True)


def a_set(replicas=3, *, start=0, policy="OrderedReady", type_="RollingUpdate", **rolling):
    strategy = UpdateStrategy(type=type_, rolling_update=RollingUpdate(**rolling))
    return StatefulSet(
        spec=StatefulSetSpec(
            replicas=replicas,
            ordinals=Ordinals(start=start),
            pod_management_policy=policy,
            update_strategy=strategy,
        )
    )


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        pytest.param({}, Moves(), id="all are fine"),
        pytest.param({1: None, 2: None}, Moves(create=(1,), stops_at=1), id="one at a time"),
        pytest.param({1: STARTING, 2: None}, Moves(stops_at=1), id="a pod that starts"),
        pytest.param({1: LEAVING, 2: None}, Moves(stops_at=1), id="a pod that terminates"),
        pytest.param({1: FAILED, 2: None}, Moves(delete=(1,), stops_at=1), id="a failed pod"),
        pytest.param({3: FINE, 4: FINE}, Moves(delete=(4,)), id="surplus, from the end"),
        pytest.param({3: FINE, 4: LEAVING}, Moves(), id="surplus, one after the other"),
        pytest.param({3: FINE, 2: STARTING}, Moves(stops_at=2), id="surplus waits for those to keep"),
        pytest.param({3: STARTING, 4: STARTING}, Moves(), id="surplus waits for the first unavailable one"),
        pytest.param({3: STARTING}, Moves(delete=(3,)), id="which is deleted"),
        pytest.param({3: FAILED, 4: FAILED}, Moves(delete=(4,)), id="finished surplus is not waited for"),
        pytest.param({0: OLD, 1: OLD, 2: OLD}, Moves(update=(2,)), id="updates, from the end"),
        pytest.param({0: OLD, 3: FINE}, Moves(delete=(3,)), id="scaling goes first"),
    ],
)
def test_in_order(pods, expected):
    moves = next_moves(a_set(), pods)
    assert [*map(tuple, moves[:3]), moves.stops_at] == [*map(tuple, expected[:3]), expected.stops_at]


@pytest.mark.parametrize(
    ("pods", "rolling", "expected"),
    [
        pytest.param({0: None, 2: None, 3: FINE, 4: FINE}, {}, ([0, 2], [4, 3], []), id="all moves at once"),
        pytest.param({0: FAILED, 1: STARTING}, {}, ([], [0], []), id="failed pods"),
        pytest.param({0: OLD, 1: OLD, 2: OLD}, {}, ([], [], [2]), id="updates one by one"),
        pytest.param({0: OLD, 1: OLD, 2: STARTING}, {}, ([], [], []), id="an update waits for the one above"),
        pytest.param({0: STARTING, 1: OLD}, {}, ([], [], [1]), id="and for none below"),
        pytest.param({0: OLD, 1: OLD}, {"partition": 1}, ([], [], [1]), id="partition"),
        pytest.param({0: OLD}, {"partition": 1}, ([], [], []), id="nothing above the partition"),
        pytest.param({0: OLD, 1: OLD, 2: OLD}, {"max_unavailable": 2}, ([], [], [2, 1]), id="several"),
        pytest.param({0: STARTING, 1: OLD, 2: OLD}, {"max_unavailable": 2}, ([], [], [2]), id="less those below"),
        pytest.param({0: OLD, 1: OLD, 2: OLD}, {"max_unavailable": "10%"}, ([], [], [2]), id="at least one"),
    ],
)
def test_in_parallel(pods, rolling, expected):
    moves = next_moves(a_set(policy="Parallel", **rolling), pods)
    assert (list(moves.create), list(moves.delete), list(moves.update)) == expected


def test_on_delete_updates_nothing():
    assert not next_moves(a_set(type_="OnDelete"), {2: OLD}).update


def test_pods_below_the_first_ordinal_are_surplus():
    assert list(next_moves(a_set(2, start=1), {0: FINE}).delete) == [0]
    # Those to keep go first, whatever their ordinals.
    assert list(next_moves(a_set(2, start=1), {0: STARTING, 1: None}).create) == [1]


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ({}, True),
        ({1: Seen(ready=True)}, True),
        ({1: OLD}, False),
        ({1: None}, False),
        ({1: LEAVING}, False),
        ({3: FINE}, False),
    ],
)
def test_the_update_revision_becomes_the_current_one(pods, expected):
    assert is_complete(a_set(), pods) == expected
