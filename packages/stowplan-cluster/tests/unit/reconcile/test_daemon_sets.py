import pytest

from stowplan_cluster.reconcile.daemon_sets import Backoff, DaemonPod, OnNode, Plan, plan_node, plan_update
from stowplan_cluster.reconcile.views import RollingUpdate, UpdateStrategy

NEW = DaemonPod(key="new", ready=True, available=True)
NEW_STARTING = DaemonPod(key="new")
OLD = DaemonPod(key="old", updated=False, ready=True, available=True)
OLD_BROKEN = DaemonPod(key="old", updated=False)
LEAVING = DaemonPod(key="leaving", terminating=True)
FAILED = DaemonPod(key="failed", phase="Failed")
REPLACING, SURGING = RollingUpdate(max_unavailable=1), RollingUpdate(max_surge=1)


def rolling(strategy):
    return UpdateStrategy(rolling_update=strategy)


def planned(pods, *, should_run=True, may_stay=True, strategy=REPLACING, backoff=None, now=100.0):
    plan = Plan()
    plan_node(plan, "n", OnNode(pods, should_run, may_stay), rolling(strategy), backoff, now)
    return plan


@pytest.mark.parametrize(
    ("pods", "more", "create", "delete"),
    [
        pytest.param([], {}, ["n"], [], id="a node without a pod"),
        pytest.param([], {"should_run": False}, [], [], id="that should not have one"),
        pytest.param([NEW], {}, [], [], id="a node with a pod"),
        pytest.param([NEW], {"should_run": False}, [], [], id="that may stay"),
        pytest.param([NEW, LEAVING], {"should_run": False, "may_stay": False}, [], ["new"], id="that may not"),
        pytest.param([LEAVING], {}, [], [], id="a pod that terminates is waited for"),
        pytest.param([LEAVING], {"strategy": SURGING}, ["n"], [], id="unless the update surges"),
        pytest.param([OLD, NEW], {}, [], ["new"], id="one too many, of the same age"),
        pytest.param([OLD, NEW], {"strategy": SURGING}, [], ["old"], id="the old one goes when the new one runs"),
        pytest.param([OLD, NEW_STARTING], {"strategy": SURGING}, [], [], id="not before"),
        pytest.param([OLD_BROKEN, NEW_STARTING], {"strategy": SURGING}, [], ["old"], id="unless it is not ready"),
        pytest.param([FAILED], {}, [], ["failed"], id="a failed pod"),
        pytest.param([DaemonPod(key="done", phase="Succeeded")], {}, [], ["done"], id="a succeeded pod"),
    ],
)
def test_a_node(pods, more, create, delete):
    plan = planned([pod._replace(created=float(pod.updated)) for pod in pods], **more)
    assert (plan.create, plan.delete) == (create, delete)


def test_a_failed_pod_stays_for_a_while():
    first = planned([FAILED]).backoffs["n"]
    assert first == Backoff(1.0, 100.0)
    again = planned([FAILED], backoff=first, now=100.25)
    assert (again.delete, again.waits, again.backoffs) == ([], [0.75], {})
    assert planned([FAILED], backoff=first, now=101.0).backoffs["n"] == Backoff(2.0, 101.0)
    assert planned([FAILED], backoff=Backoff(900.0, 0.0), now=1800.0).backoffs["n"].delay == 900.0
    assert planned([FAILED], backoff=Backoff(900.0, 0.0), now=1801.0).backoffs["n"].delay == 1.0


def named(pod, node):
    return pod._replace(key=f"{pod.key} on {node}")


@pytest.mark.parametrize(
    ("strategy", "nodes", "create", "delete"),
    [
        pytest.param(REPLACING, {"a": [OLD], "b": [OLD]}, [], ["old on a"], id="one at a time"),
        pytest.param(REPLACING, {"a": [OLD], "b": [NEW_STARTING]}, [], [], id="not while another starts"),
        pytest.param(REPLACING, {"a": [OLD], "b": []}, [], [], id="or is missing"),
        pytest.param(REPLACING, {"a": [OLD], "b": [OLD_BROKEN]}, [], ["old on b"], id="broken ones first"),
        pytest.param(RollingUpdate(max_unavailable="50%"), {"a": [OLD], "b": [OLD]}, [], ["old on a", "old on b"]),
        pytest.param(SURGING, {"a": [OLD], "b": [OLD]}, ["a"], [], id="one more at a time"),
        pytest.param(SURGING, {"a": [OLD], "b": [OLD, NEW_STARTING]}, [], [], id="not while another starts, too"),
        pytest.param(SURGING, {"a": [OLD], "b": [OLD_BROKEN]}, ["b", "a"], [], id="broken ones do not count"),
    ],
)
def test_updates(strategy, nodes, create, delete):
    on_nodes = {name: OnNode([named(pod, name) for pod in pods], True, True) for name, pods in nodes.items()}
    plan = plan_update(rolling(strategy), on_nodes, desired=4, settled=2)
    assert (plan.create, plan.delete) == (create, delete)


@pytest.mark.parametrize(("settled", "delete"), [(1, []), (2, ["old"])])
def test_a_pod_stays_on_a_node_that_is_not_meant_until_there_are_enough_elsewhere(settled, delete):
    plan = plan_update(rolling(SURGING), {"a": OnNode([OLD], False, True)}, desired=2, settled=settled)
    assert plan.delete == delete


def test_on_delete_updates_nothing():
    plan = plan_update(UpdateStrategy(type="OnDelete"), {"a": OnNode([OLD], True, True)}, desired=1, settled=0)
    assert not plan.create
    assert not plan.delete
