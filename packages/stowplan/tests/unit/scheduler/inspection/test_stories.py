"""What is remembered of pods and decisions, for how long, and its text."""

import gc
import json
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

import stowplan
from stowplan.scheduler.engine.decision.attempt_outcome import attempt_outcome
from stowplan.scheduler.engine.decision.cycle_steps import run_at_once
from stowplan.scheduler.engine.decision.decision import Decision
from stowplan.scheduler.engine.schedule_one import schedule_pod
from stowplan.scheduler.framework.status import Status, error, unschedulable
from stowplan.scheduler.inspection.records import SCHEMA_VERSION, document
from stowplan.scheduler.inspection.stories import Stories, time_text
from stowplan.scheduler.queue.queued_pod import Place, QueuedPod
from stowplan.testing import a_node, a_pod

NOON = 1_767_355_200.0  # 2026-01-02T12:00:00Z


def queued(pod, **fields):
    return QueuedPod(pod=pod, key=pod.key, timestamp=NOON, **fields)


class Clock:
    def __init__(self):
        self.time = NOON

    def __call__(self):
        return self.time


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def stories(clock):
    return Stories(now=clock)


def a_cluster(*objects):
    return stowplan.Cluster(objects)


def pod_of(builder):
    return a_cluster(builder.obj()).pod(f"{builder.obj()['metadata']['namespace']}/{builder.obj()['metadata']['name']}")


WEB = pod_of(a_pod("web", "shop").uid("u-web"))


def conclude(stories, decision, *, attempt=1, seconds=0.0):
    stories.decided(attempt_outcome(decision, time=stories.now(), attempt=attempt, seconds=seconds))


def decided(stories, *objects, pod, attempt=1, seconds=0.0012):
    cluster = a_cluster(*objects, pod)
    (name,) = cluster.pending()
    info = cluster.pod(name)
    decision = run_at_once(schedule_pod(cluster.algorithm, cluster.framework_of(info), info))
    conclude(stories, decision, attempt=attempt, seconds=seconds)
    return decision


def whats(story):
    return [step.what for step in story.steps]


# -- a pod's way


def test_the_story_of_a_pod_from_creation_to_binding(stories, clock):
    pod = queued(WEB)
    stories.moved(pod, Place.ACTIVE, "UnschedulablePodAdd")
    clock.time += 0.25
    stories.moved(pod, Place.IN_FLIGHT, "Popped")
    conclude(stories, Decision(WEB, "n1"), attempt=1, seconds=0.0004)
    stories.step("shop/web", "u-web", "waits on permit", "Quota", "up to 30s")
    clock.time += 3
    stories.step("shop/web", "u-web", "bound", "DefaultBinder")
    story = stories.of("shop/web")
    assert story.lines() == [
        "2026-01-02T12:00:00.000Z  active: UnschedulablePodAdd",
        "2026-01-02T12:00:00.250Z  in flight: Popped",
        "2026-01-02T12:00:00.250Z  attempt 1 (0.4 ms): goes to n1",
        "2026-01-02T12:00:00.250Z  waits on permit: Quota (up to 30s)",
        "2026-01-02T12:00:03.250Z  bound: DefaultBinder",
    ]
    assert document(story.record()) == {
        "schemaVersion": SCHEMA_VERSION,
        "pod": "shop/web",
        "uid": "u-web",
        "steps": [
            {"time": "2026-01-02T12:00:00.000Z", "what": "active", "cause": "UnschedulablePodAdd"},
            {"time": "2026-01-02T12:00:00.250Z", "what": "in flight", "cause": "Popped"},
            {"time": "2026-01-02T12:00:00.250Z", "what": "decided", "attempt": 1, "milliseconds": 0.4, "node": "n1"},
            {
                "time": "2026-01-02T12:00:00.250Z",
                "what": "waits on permit",
                "cause": "Quota",
                "detail": "up to 30s",
            },
            {"time": "2026-01-02T12:00:03.250Z", "what": "bound", "cause": "DefaultBinder"},
        ],
    }


@pytest.mark.parametrize(
    ("fields", "place", "text"),
    [
        pytest.param(
            {"backoff_expiration": NOON + 2}, Place.BACKOFF, "backoff: NodeAdd (until 2026-01-02T12:00:02.000Z)"
        ),
        pytest.param(
            {"backoff_expiration": NOON + 1},
            Place.ERROR_BACKOFF,
            "error backoff: NodeAdd (until 2026-01-02T12:00:01.000Z)",
        ),
        pytest.param({}, Place.BACKOFF, "backoff: NodeAdd", id="its end is not worked out yet"),
        pytest.param({"backoff_expiration": NOON + 2}, Place.ACTIVE, "active: NodeAdd", id="no longer backing off"),
        pytest.param({}, Place.UNSCHEDULABLE, "unschedulable: NodeAdd"),
        pytest.param({}, Place.GONE, "left the queue: NodeAdd"),
        pytest.param(
            {"gating_plugin": "SchedulingGates"},
            Place.UNSCHEDULABLE,
            "unschedulable: NodeAdd (gated by SchedulingGates)",
            id="gated",
        ),
    ],
)
def test_a_move_says_where_to_and_why(stories, fields, place, text):
    stories.moved(queued(WEB, **fields), place, "NodeAdd")
    assert [step.record().text() for step in stories.of("shop/web").steps] == [text]


# -- verdicts


def test_a_refusal_keeps_message_plugins_and_counts(stories):
    nodes = [a_node("a").obj(), a_node("b").obj(), a_node("t").tainted("gpu").obj()]
    decided(
        stories, *nodes, pod=a_pod("huge").uid("u").scheduler("default-scheduler").requests(cpu="100").obj(), attempt=3
    )
    (record,) = stories.last_decisions(10)
    message = record.message
    assert message.startswith("0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu.")
    assert document(record.record()) == {
        "schemaVersion": SCHEMA_VERSION,
        "time": "2026-01-02T12:00:00.000Z",
        "pod": "default/huge",
        "uid": "u",
        "schedulerName": "default-scheduler",
        "attempt": 3,
        "milliseconds": 1.2,
        "code": "Unschedulable",
        "message": message,
        "unschedulablePlugins": ["NodeResourcesFit", "TaintToleration"],
        "refused": {"NodeResourcesFit": 2, "TaintToleration": 1},
    }
    assert stories.of("default/huge").lines() == [
        f"2026-01-02T12:00:00.000Z  attempt 3 (1.2 ms): no node (Unschedulable): {message}; "
        "refused by NodeResourcesFit (2), TaintToleration (1)"
    ]


def test_nodes_excluded_by_pre_filter_count_for_their_plugin(stories):
    pod = a_pod("p").requires_node(fields=[{"key": "metadata.name", "operator": "In", "values": ["a"]}])
    nodes = [a_node("a").tainted("gpu").obj(), a_node("b").obj(), a_node("c").obj()]
    decided(stories, *nodes, pod=pod.obj())
    assert stories.last_decisions(1)[0].refused == (("NodeAffinity", 2), ("TaintToleration", 1))


def test_a_preemption_keeps_the_node_and_the_first_victims(stories):
    low = [a_pod(f"low-{i:02}").requests(cpu="300m").priority(50 - i).on("a").obj() for i in range(13)]
    node = a_node("a").allocatable(cpu="4", memory="16Gi", pods="110").obj()
    decided(stories, node, *low, pod=a_pod("vip").requests(cpu="4").priority(99).obj())
    (record,) = stories.last_decisions(1)
    assert record.nominated_node_name == "a"
    assert (len(record.victims), record.victims_total, record.pdb_violations) == (10, 13, 0)
    assert "; nominated to a, evicting default/low-00, default/low-01, " in record.record().attempt_text()
    assert record.record().attempt_text().endswith("default/low-09 and 3 more")


def test_an_attempt_that_ended_with_an_error(stories):
    failed = Status(error("no such claim").code, error=RuntimeError("no such claim"), plugin="VolumeBinding")
    conclude(stories, Decision(WEB, status=failed), attempt=1, seconds=0.01)
    assert stories.of("shop/web").lines() == [
        "2026-01-02T12:00:00.000Z  attempt 1 (10.0 ms): no node (Error): no such claim"
    ]
    assert stories.last_decisions(1)[0].unschedulable_plugins == ("VolumeBinding",)


def test_a_rejection_without_a_diagnosis_names_its_plugin(stories):
    conclude(stories, Decision(WEB, status=unschedulable("not now").with_plugin("Quota")), attempt=1, seconds=0.01)
    assert stories.last_decisions(1)[0].unschedulable_plugins == ("Quota",)


def test_stories_are_json(stories):
    decided(stories, a_node("a").obj(), pod=a_pod("huge").requests(cpu="100").obj())
    stories.moved(queued(WEB), Place.ACTIVE, "UnschedulablePodAdd")
    for data in (document(stories.of("default/huge").record()), document(stories.of("shop/web").record())):
        assert json.loads(json.dumps(data)) == data


# -- bounds


def test_decisions_are_not_kept_alive(stories):
    decision = decided(stories, a_node("a").obj(), pod=a_pod("huge").requests(cpu="100").obj())
    masks = weakref.ref(decision.diagnosis.valid), weakref.ref(decision.diagnosis)
    del decision
    gc.collect()
    assert [mask() for mask in masks] == [None, None]


def test_long_texts_are_truncated(stories):
    long = "x" * 100_000
    conclude(stories, Decision(WEB, status=unschedulable(long)), attempt=1, seconds=0.0)
    stories.step("shop/web", "u-web", "bind failed", "DefaultBinder", long)
    assert len(json.dumps(document(stories.of("shop/web").record()))) < 5_000


def test_equal_messages_are_one_string(stories):
    for uid in ("1", "2"):
        pod = pod_of(a_pod("p").uid(uid))
        conclude(stories, Decision(pod, status=unschedulable("".join(("sorry", ", no")))), attempt=1, seconds=0.0)
    first, second = stories.last_decisions(2)
    assert first.message is second.message


def test_a_long_story_keeps_its_first_and_last_steps(clock):
    stories = Stories(now=clock, steps=8)
    for i in range(20):
        stories.step("shop/web", "u-web", f"step {i}", "")
    story = stories.of("shop/web")
    assert whats(story) == [f"step {i}" for i in (0, 1, 2, 3, 16, 17, 18, 19)]
    assert story.lines()[4] == "… 12 steps are forgotten …"
    assert (document(story.record())["forgotten"], document(story.record())["stepsBeforeGap"]) == (12, 4)


def test_the_existing_pod_of_a_name_is_preferred(stories):
    stories.step("default/db-0", "old", "active", "")
    stories.step("default/db-0", "new", "active", "")
    stories.step("default/db-0", "old", "bind failed", "")
    stories.gone("old")
    assert stories.of("default/db-0").uid == "new"
    stories.gone("new")
    assert stories.of("default/db-0").uid == "old", "not the last touched of two deleted pods"


def test_last_decisions_are_the_newest_first(clock):
    stories = Stories(now=clock, decisions=3)
    for attempt in range(1, 6):
        conclude(stories, Decision(WEB, "n"), attempt=attempt, seconds=0.0)
    assert [record.attempt for record in stories.last_decisions(2)] == [5, 4]
    assert [record.attempt for record in stories.last_decisions(99)] == [5, 4, 3]
    assert stories.last_decisions(-1) == []


@pytest.mark.parametrize("bounds", [{"pods": 0}, {"steps": 4}, {"decisions": 0}])
def test_bounds_that_hold_nothing_are_refused(clock, bounds):
    with pytest.raises(ValueError, match="at least 1 pod"):
        Stories(now=clock, **bounds)


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from(("step", "decided", "moved", "gone"))), max_size=120))
def test_bounds_hold_and_the_rest_agrees_with_a_plain_log(log):
    """Compared with an unbounded log: the latest touched pods, each with its first and last steps."""
    stories = Stories(now=lambda: NOON, pods=3, steps=7, decisions=5)
    plain: dict[int, list[str]] = {}
    infos = [pod_of(a_pod(f"p{i}").uid(str(i))) for i in range(6)]
    attempts = []
    for number, (i, what) in enumerate(log):
        info = infos[i]
        if what == "gone":
            stories.gone(info.uid)
            if i in plain and "deleted" not in plain[i]:
                plain[i].append("deleted")
            continue
        if what == "step":
            stories.step(info.key, info.uid, f"step {number}", "")
        elif what == "moved":
            stories.moved(queued(info), Place.ACTIVE, f"cause {number}")
        else:
            conclude(stories, Decision(info, "n"), attempt=number, seconds=0.0)
            attempts.append(number)
        text = {"step": f"step {number}", "moved": f"active: cause {number}"}.get(what)
        told = plain.pop(i, [])
        plain[i] = [*told, text or f"attempt {number} (0.0 ms): goes to n"]
        if len(plain) > 3:
            del plain[next(iter(plain))]
    assert len(stories) == len(plain)
    for i, told in plain.items():
        story = stories.of(f"default/p{i}")
        expected = told if len(told) <= 7 else [*told[:4], *told[-3:]]
        assert [step.record().text() for step in story.steps] == expected
        assert story.forgotten == max(0, len(told) - 7)
    assert [record.attempt for record in stories.last_decisions(9)] == attempts[:-6:-1]


def test_times_are_formatted_as_in_kubernetes():
    assert time_text(NOON + 0.1234) == "2026-01-02T12:00:00.123Z"
