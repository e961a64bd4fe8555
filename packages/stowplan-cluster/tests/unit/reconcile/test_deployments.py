"""The sizes of a Deployment's ReplicaSets at each step of a rollout."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.kube.api.decode import convert
from stowplan_cluster.reconcile.deployments import (
    MAX_REPLICAS,
    max_replicas,
    max_surge,
    max_unavailable,
    proportional_sizes,
    size_of_new,
    sizes_of_old,
)
from stowplan_cluster.reconcile.views import Deployment, ReplicaSet


def deployment(replicas, surge="25%", unavailable="25%", kind="RollingUpdate"):
    rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
    return convert({"spec": {"replicas": replicas, "strategy": {"type": kind, "rollingUpdate": rolling}}}, Deployment)


def replica_set(name, replicas, available=None, before=None):
    annotations = {} if before is None else {MAX_REPLICAS: str(before)}
    metadata = {"name": name, "uid": name, "creationTimestamp": f"2026-01-01T00:00:0{name[-1]}Z"}
    return convert(
        {
            "metadata": {**metadata, "annotations": annotations},
            "spec": {"replicas": replicas},
            "status": {"availableReplicas": replicas if available is None else available},
        },
        ReplicaSet,
    )


@pytest.mark.parametrize(
    ("given_", "surge", "unavailable"),
    [
        pytest.param(deployment(10), 3, 2, id="defaults"),
        pytest.param(deployment(1), 1, 0, id="defaults of one"),
        pytest.param(deployment(4, 0, "10%"), 0, 1, id="nothing either way"),
        pytest.param(deployment(2, 0, 5), 0, 2, id="no more than there are"),
        pytest.param(deployment(0, 1, 1), 1, 0, id="no replicas"),
        pytest.param(deployment(10, kind="Recreate"), 0, 0, id="recreate"),
    ],
)
def test_bounds(given_, surge, unavailable):
    assert (max_surge(given_), max_unavailable(given_)) == (surge, unavailable)


# Upstream: TestScaleDownOldReplicaSets, TestReconcileOldReplicaSets.
@pytest.mark.parametrize(
    ("bounds", "old", "old_available", "new", "new_available", "expected"),
    [
        pytest.param((0, 2), 10, 10, 0, 0, 8, id="up to max unavailable"),
        pytest.param((2, 0), 10, 10, 2, 0, 10, id="none before the new ones are available"),
        pytest.param((2, 2), 10, 8, 2, 0, 8, id="unhealthy ones"),
        pytest.param((2, 2), 10, 5, 5, 5, 3, id="unhealthy ones and more"),
        pytest.param((0, 0), 10, 10, 0, 0, 9, id="at least one unavailable"),
    ],
)
def test_scaling_down_old_sets(bounds, old, old_available, new, new_available, expected):
    sizes = sizes_of_old(
        deployment(10, *bounds),
        [replica_set("old-1", old, old_available)],
        replica_set("new-2", new, new_available),
    )
    assert sizes == {"old-1": expected}


@pytest.mark.parametrize(
    ("replicas", "sizes", "before", "expected"),
    [
        pytest.param(12, {"a-1": 5, "b-2": 5}, 10, {"a-1": 6, "b-2": 6}, id="up, in equal parts"),
        pytest.param(20, {"a-1": 9, "b-2": 1}, 10, {"a-1": 18, "b-2": 2}, id="up, in unequal parts"),
        pytest.param(5, {"a-1": 5, "b-2": 5}, 10, {"a-1": 2, "b-2": 3}, id="down, the older pays the odd one"),
        pytest.param(0, {"a-1": 5, "b-2": 5}, 10, {"a-1": 0, "b-2": 0}, id="to nothing"),
    ],
)
def test_proportional_scaling(replicas, sizes, before, expected):
    sets = [replica_set(name, size, before=before) for name, size in sizes.items()]
    assert proportional_sizes(deployment(replicas, 0, 1), sets) == expected


def test_pods_that_are_about_to_be_deleted_are_not_available():
    """The set was just made smaller, and its status is older."""
    old, new = replica_set("old-1", 2, available=4), replica_set("new-2", 0)
    assert sizes_of_old(deployment(1, 1, 0), [old], new) == {"old-1": 1}


counts = st.integers(0, 30)


@given(counts, st.lists(counts, min_size=1, max_size=4), st.integers(0, 5))
def test_shares_add_up_to_the_ceiling(replicas, sizes, surge):
    """Or exceed it where rounding would take more than a set has; the rollout corrects that."""
    wanted = deployment(replicas, surge, 1)
    sets = [replica_set(f"set-{place}", size, before=sum(sizes)) for place, size in enumerate(sizes) if size]
    shared = proportional_sizes(wanted, sets)
    if sets:
        ceiling = max_replicas(wanted) if replicas else 0
        assert sum(shared.values()) == ceiling or (0 in shared.values() and ceiling < sum(shared.values()) < sum(sizes))
        assert min(shared.values()) >= 0


@given(counts, st.lists(st.tuples(counts, counts), min_size=1, max_size=3), counts, counts, st.integers(0, 5))
def test_steps_keep_within_the_bounds(replicas, old, new, new_available, surge):
    wanted = deployment(replicas, surge, 2)
    old_sets = [replica_set(f"old-{place}", size, min(size, works)) for place, (size, works) in enumerate(old)]
    new_set = replica_set("new-9", new, min(new, new_available))
    total = new + sum(size for size, _ in old)
    grown = size_of_new(wanted, new, total)
    assert grown <= max(new, replicas)
    assert total - new + grown <= max(total, max_replicas(wanted))
    sizes = sizes_of_old(wanted, old_sets, new_set)
    available_before = sum(min(size, works) for size, works in old) + min(new, new_available)
    available_after = sum(min(sizes[one.metadata.name], one.status["availableReplicas"]) for one in old_sets)
    floor = replicas - max_unavailable(wanted)
    assert all(0 <= sizes[one.metadata.name] <= one.spec.replicas for one in old_sets)
    assert available_after + min(new, new_available) >= min(available_before, floor)
