"""A timeline: its frames lead from the first plan to the last, even if moments were merged."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.kube.api.decode import decode_object
from stowplan.kube.timing.waits import WaitingPods
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.ui.plan import Plan, PlanChange, difference, plan_of
from stowplan.ui.timeline import MAX_MARKS, Run, timeline_of
from support.examples import times
from support.plugins.devices import DRIVER, a_claim, a_device, a_slice, allocation, exactly
from support.what_if.objects import node, pod


def put(state, name, node_name, nominated=""):
    made = pod(name, **({"nodeName": node_name} if node_name else {}))
    made["metadata"]["uid"] = name
    made["status"] = {"nominatedNodeName": nominated} if nominated else {}
    decoded = decode_object(made)
    if node_name:
        state.add_pod(decoded)
    else:
        state.pending.put(state.pod_info(decoded))


def played(state, steps):
    """`steps`: (time, change)."""
    for now, do in steps:
        do()
        yield now


def seen(state, moments, **options):
    return timeline_of([Run(state, moments)], WaitingPods(), **options)


def filled():
    state = ClusterState()
    state.add_node(decode_object(node("a")))
    return state


@pytest.mark.parametrize("most", [9, 2])
def test_devices_over_time(most):
    state = filled()
    user = {"resource": "pods", "name": "p", "uid": "p"}
    held = a_claim("held", exactly(), status={**allocation("gpu-0", pool="a"), "reservedFor": [user]})
    claim = decode_object(held)
    steps = [
        (
            10.0,
            lambda: state.objects.put(decode_object(a_slice("a", a_device("gpu-0"), a_device("gpu-1"), nodeName="a"))),
        ),
        (11.0, lambda: None),
        (12.0, lambda: put(state, "p", "a")),
        (13.0, lambda: state.objects.put(claim)),
        (14.0, lambda: None),
        (15.0, lambda: state.objects.remove(claim)),
    ]
    timeline = seen(state, played(state, steps), most=most)
    record = timeline.frames_record("recorded")
    assert record.devices.nodes["a"][0].devices == 2
    changes = [frame.devices for frame in record.frames if frame.devices is not None]
    assert changes[-1].pods == {"default/p": {}}
    assert changes[-1].nodes["a"][0].held == 0
    if most == 9:
        assert changes[0].pods == {"default/p": {DRIVER: 1}}
        assert [frame.figures[DRIVER] for frame in timeline.frames] == [0, 0, 0, 0.5, 0.5, 0]


def test_a_timeline():
    state = filled()
    steps = [
        (10.0, lambda: None),
        (11.0, lambda: put(state, "p", "")),
        (12.0, lambda: put(state, "p", "", nominated="a")),
        (13.0, lambda: put(state, "p", "a")),
        (14.0, lambda: state.add_node(decode_object(node("b")))),
        (15.0, lambda: state.remove_node("b")),
    ]
    timeline = seen(state, played(state, steps))
    assert [frame.time for frame in timeline.frames] == [10, 11, 12, 13, 14, 15]
    assert (list(timeline.start.nodes), list(timeline.start.pods)) == (["a"], [])
    record = timeline.time_record("recorded")
    assert [(mark.what, mark.detail) for mark in record.marks] == [
        ("preemption", "default/p waits for room on a"),
        ("node added", "b"),
        ("node removed", "b"),
    ]
    columns = {column.name: column.values for column in record.series.columns}
    assert columns["pending"] == (0, 1, 1, 0, 0, 0)
    assert columns["cpu"] == (0, 0, 0, 0.25, 0.125, 0.25)
    assert (record.from_, record.to) == ("1970-01-01T00:00:10.000Z", "1970-01-01T00:00:15.000Z")


def test_every_resource_of_nodes_is_a_figure():
    state, with_gpus, training = filled(), node("b"), pod("train", nodeName="b")
    with_gpus["status"]["allocatable"] |= {"nvidia.com/gpu": "4", "ephemeral-storage": "9Gi"}
    training["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] = "3"
    steps = [
        (10.0, lambda: None),
        (11.0, lambda: state.add_node(decode_object(with_gpus))),
        (12.0, lambda: state.add_pod(decode_object(training))),
    ]
    columns = seen(state, played(state, steps)).time_record("recorded").series.columns
    shares = {column.name: column.values for column in columns if column.unit == "ratio"}
    assert list(shares) == ["cpu", "memory", "nvidia.com/gpu"]
    assert shares["nvidia.com/gpu"] == (0, 0, 0.75)


def test_before_the_first_lists_there_is_nothing():
    state = ClusterState()
    steps = [(1.0, lambda: None), (2.0, lambda: state.add_node(decode_object(node("a"))))]
    assert [frame.time for frame in seen(state, played(state, steps)).frames] == [2]
    assert seen(ClusterState(), []).time_record("recorded").marks == ()


@settings(max_examples=times(60))
@given(
    st.lists(st.tuples(st.floats(0, 3), st.sampled_from("pqr"), st.sampled_from(["", "a", "gone"])), max_size=40),
    st.integers(2, 9),
)
def test_frames_lead_to_the_last_plan(steps, most):
    state, times, now = filled(), [], 0.0
    done = [(0.0, lambda: None)]
    for wait, name, where in steps:
        now += wait
        times.append(now)
        done.append((now, lambda name=name, where=where: do(state, name, where)))
    timeline = seen(state, played(state, done), most=most)
    assert len(timeline.frames) <= most + 2
    plan = timeline.start.copy()
    for frame in timeline.frames[1:]:
        plan.apply(frame.change)
    assert plan == plan_of(state)


def do(state, name, where):
    if where == "gone":
        state.remove_pod(name)
        state.pending.remove(f"default/{name}")
    elif where or state.placed(name) is None:
        put(state, name, where)


PLANS = st.builds(
    lambda keys: plan_of_keys(keys), st.lists(st.tuples(st.sampled_from("pqr"), st.sampled_from("12")), max_size=4)
)


def plan_of_keys(keys):
    state = filled()
    for name, cpu in dict(keys).items():
        made = pod(name, cpu=cpu)
        made["metadata"]["uid"] = name
        state.pending.put(state.pod_info(decode_object(made)))
    return plan_of(state)


@given(PLANS, PLANS, PLANS)
def test_two_changes_as_one(first, second, third):
    plan = first.copy()
    plan.apply(difference(first, second).then(difference(second, third)))
    assert plan == third


def test_the_number_of_marks_is_bounded():
    state = filled()
    added = [lambda i=i: state.add_node(decode_object(node(f"n{i}"))) for i in range(MAX_MARKS + 50)]
    steps = [(0.0, lambda: None), *((i + 1.0, add) for i, add in enumerate(added))]
    assert len(seen(state, played(state, steps)).marks) == MAX_MARKS


def test_plans_are_not_aliased():
    state = filled()
    timeline = seen(state, played(state, [(1.0, lambda: None), (2.0, lambda: put(state, "p", "a"))]))
    assert timeline.start == Plan(nodes=timeline.start.nodes)


def test_runs_follow_one_another():
    """A restarted scheduler lists again; existing nodes are not shown as removed."""
    first, second = filled(), ClusterState()
    steps = [
        (3.0, lambda: None),
        (4.0, lambda: second.add_node(decode_object(node("a")))),
        (5.0, lambda: put(second, "q", "a")),
    ]
    runs = [
        Run(first, played(first, [(1.0, lambda: None), (2.0, lambda: put(first, "p", "a"))])),
        Run(second, played(second, steps)),
    ]
    timeline = timeline_of(runs, WaitingPods())
    assert [frame.time for frame in timeline.frames] == [1, 2, 4, 5]
    assert timeline.frames[2].change == PlanChange(gone_pods=("default/p",))
    assert timeline.marks == []
    assert timeline.end() == plan_of(second)


def test_waiting_times_so_far():
    """Pods that still wait at that moment count as well."""
    state, waiting = filled(), WaitingPods()
    steps = [
        (0.0, lambda: waiting.arrived("p", 0.0)),
        (4.0, lambda: waiting.placed("p", 4.0)),
        (6.0, lambda: put(state, "p", "a")),
        (8.0, lambda: [waiting.arrived(uid, 7.0) for uid in "qr"]),
    ]
    timeline = timeline_of([Run(state, played(state, steps))], waiting)
    columns = {column.name: column for column in timeline.time_record("t").series.columns}
    assert columns["waitHalf"].unit == "seconds"
    assert columns["waitHalf"].values == pytest.approx((0, 4, 4, 1), rel=0.01)
