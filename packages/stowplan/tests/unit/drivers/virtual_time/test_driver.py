"""Virtual time: when effects are carried out, the engine's inputs, and when the simulation is idle."""

import pytest

from stowplan.drivers.virtual_time.agenda import Agenda
from stowplan.drivers.virtual_time.driver import VirtualTime
from stowplan.drivers.virtual_time.latency import Latency
from stowplan.drivers.virtual_time.object_store import ObjectStore
from stowplan.kube.api.api_errors import AlreadyExists, Conflict, NotFound
from stowplan.kube.api.decode import convert
from stowplan.kube.api.meta import ObjectReference
from stowplan.kube.api.types import Namespace, Node, Pod
from stowplan.scheduler.engine.effects import Cancel, EmitEvent, Wake, Withdraw
from stowplan.scheduler.engine.inputs import Activated, Answer, Changes, Schedule, Started, Tick
from stowplan.scheduler.framework.requests import Ask, Bind, Create, Delete, Done, Patch, Read, Refused
from stowplan.testing import a_node, a_pod
from support.simulate.scripted_engine import ScriptedEngine


@pytest.fixture
def engine():
    return ScriptedEngine()


def simulated(engine, **options):
    return VirtualTime(engine, ObjectStore(), **options)


def pod(name="web", **spec):
    return convert(a_pod(name).spec(**spec).obj(), Pod)


def create(name="web", **spec):
    return Create(obj=pod(name, **spec))


def bind(name="web", node="n1", uid=""):
    return Bind(namespace="default", name=name, uid=uid, node=node)


def delete(name="web"):
    return Delete(kind=Pod, namespace="default", name=name)


def label(value, name="web"):
    body = {"metadata": {"labels": {"x": value}}}
    return Patch(kind=Pod, namespace="default", name=name, body=body, type_="merge")


def read(name="web"):
    return Read(kind=Pod, namespace="default", name=name)


def tell(note="n"):
    return EmitEvent(profile="p", regarding=ObjectReference(), type_="Normal", reason="R", action="A", note=note)


def names_of(news):
    """(time, what happened) of the changes of pods."""
    return [(at, [_said(old, new) for old, new in changes]) for at, kind, changes in news if kind is Pod]


def _said(old, new):
    sign = "+" if old is None else "-" if new is None else "~"
    return sign + (new or old).metadata.name


# -- start, turns, end -------------------------------------------------------------------------------------------------


def test_initial_objects_then_start_then_turns(engine):
    time = simulated(engine, agenda=Agenda(100.0))
    time.write(Create(obj=convert(a_node("n1").obj(), Node)))
    time.write(create("a"))
    time.write(Create(obj=convert(a_node("n2").obj(), Node)))
    engine.turns = 2
    time.run()
    assert [type(one) for _, one in engine.heard] == [Changes, Changes, Started, Schedule, Schedule]
    assert [(kind, len(changes)) for _, kind, changes in engine.news] == [(Node, 2), (Pod, 1)]
    assert {at for at, _ in engine.heard} == {100.0}


def test_it_starts_once(engine):
    time = simulated(engine)
    time.run()
    time.run()
    assert len(engine.inputs(Started)) == 1


def test_changes_are_delivered_before_the_next_turn(engine):
    time = simulated(engine)
    time.write(create())
    engine.turns = 2
    engine.on(Schedule, bind())
    time.run()
    assert [name for _, name in engine.rest] == ["Changes", "Schedule", "Answer", "Changes", "Schedule"]


def test_idle_until_a_timer(engine):
    time = simulated(engine)
    engine.on(Started, Wake(10.0))
    engine.on(Tick, Wake(20.0))
    time.run()
    assert (time.now, engine.inputs(Tick)) == (0.0, [])
    time.at(15.0, create())
    time.run()
    assert time.now == 15.0
    assert [at for at, _ in engine.inputs(Tick)] == [10.0], "not in progress"


def test_run_goes_to_no_later_moment(engine):
    time = simulated(engine)
    for at in (1.0, 2.0, 3.0):
        time.at(at, create(f"p{at:g}"))
    time.run(until=2.0)
    assert (time.now, time.store.count(Pod)) == (2.0, 2)


def test_time_that_passes_wakes_the_engine(engine):
    time = simulated(engine)
    engine.on(Started, Wake(10.0), Wake(4.0), Wake(10.0))
    time.advance(30.0)
    assert time.now == 30.0
    assert [at for at, _ in engine.inputs(Tick)] == [4.0, 10.0]


def test_a_past_timer_ticks_at_once(engine):
    time = simulated(engine, agenda=Agenda(5.0))
    engine.on(Started, Wake(5.0))
    time.run()
    assert [at for at, _ in engine.inputs(Tick)] == [5.0]


# -- requests without latency ------------------------------------------------------------------------------------------


def test_a_request_has_a_response_and_watch_events(engine):
    time = simulated(engine)
    there = time.write(create())
    engine.on(Started, bind(uid=there.metadata.uid))
    time.run()
    assert engine.answers == [(0.0, engine.numbers[1], Done())]
    bound = time.store.get(Pod, "default", "web")
    assert engine.news[-1] == (0.0, Pod, [(there, bound)])
    assert bound.spec.node_name == "n1"


@pytest.mark.parametrize(
    ("action", "answer"),
    [
        pytest.param(create("new"), "new", id="create"),
        pytest.param(label("y"), "web", id="patch"),
        pytest.param(read(), "web", id="read"),
        pytest.param(bind(), None, id="bind"),
        pytest.param(delete(), None, id="delete"),
    ],
)
def test_responses(engine, action, answer):
    time = simulated(engine)
    time.write(create())
    engine.on(Started, action)
    time.run()
    ((_, _, outcome),) = engine.answers
    assert isinstance(outcome, Done)
    assert (outcome.value and outcome.value.metadata.name) == answer


@pytest.mark.parametrize(
    ("action", "error"),
    [
        pytest.param(bind(uid="another"), Conflict, id="conflict"),
        pytest.param(bind("nobody"), NotFound, id="not found"),
        pytest.param(create(), AlreadyExists, id="exists"),
        pytest.param(read("nobody"), NotFound, id="nothing to read"),
    ],
)
def test_refused_requests_change_nothing(engine, action, error):
    time = simulated(engine)
    time.write(create())
    engine.on(Started, action)
    time.run()
    ((_, _, outcome),) = engine.answers
    assert isinstance(outcome, Refused)
    assert isinstance(outcome.error, error)
    assert len(engine.news) == 1


def test_an_unchanging_write_causes_no_event(engine):
    time = simulated(engine)
    time.write(create())
    engine.on(Started, label("y"), label("y"))
    time.run()
    assert len(engine.answers) == 2
    assert names_of(engine.news) == [(0.0, ["+web"]), (0.0, ["~web"])]


def test_requests_of_one_step_are_carried_out_in_order_and_are_one_batch_of_news(engine):
    time = simulated(engine)
    engine.on(Started, create("a"), create("b"), label("y", "a"))
    time.run()
    assert [outcome.value.metadata.name for _, _, outcome in engine.answers] == ["a", "b", "a"]
    assert names_of(engine.news) == [(0.0, ["+a", "+b", "~a"])]


def test_unwatched_kinds_cause_no_events(engine):
    time = simulated(engine, kinds=(Pod,))
    time.write(Create(obj=convert({"metadata": {"name": "ns"}}, Namespace)))
    time.write(create())
    time.run()
    assert [kind for _, kind, _ in engine.news] == [Pod]


def test_finished_pods_are_deleted_for_the_engine(engine):
    time = simulated(engine)
    time.write(create(nodeName="n1"))
    finished = {"status": {"phase": "Succeeded"}}
    time.at(1.0, Patch(kind=Pod, namespace="default", name="web", body=finished, type_="merge", subresource="status"))
    time.at(2.0, label("y"))
    time.at(3.0, delete())
    time.run()
    assert names_of(engine.news) == [(0.0, ["+web"]), (1.0, ["-web"])]
    assert time.store.count(Pod) == 0


# -- inputs of callers -------------------------------------------------------------------------------------------------


def test_callers_write_now_or_at_a_time(engine):
    time = simulated(engine)
    assert time.write(create("a")).metadata.resource_version == "1"
    time.at(2.0, create("b"))
    time.at(1.0, delete("a"))
    time.at(0.5, Activated(("default/a",)))
    time.run()
    assert names_of(engine.news) == [(0.0, ["+a"]), (1.0, ["~a", "-a"]), (2.0, ["+b"])]
    assert engine.inputs(Activated) == [(0.5, Activated(("default/a",)))]


def test_refused_writes_of_callers_are_raised_or_recorded(engine):
    time = simulated(engine)
    with pytest.raises(NotFound):
        time.write(delete())
    time.at(1.0, bind("nobody"))
    time.at(1.0, delete("nobody"))
    time.run()
    ((at, request, error),) = time.refused
    assert (at, request) == (1.0, bind("nobody"))
    assert isinstance(error, NotFound)


def test_feeds_are_read_lazily(engine):
    drawn = []

    def arrivals():
        for i in range(6):
            drawn.append(i)
            yield float(i // 2), create(f"p{i}")

    time = simulated(engine)
    time.feed(arrivals())
    time.run(until=1.0)
    assert drawn == [0, 1, 2, 3, 4]
    assert names_of(engine.news) == [(0.0, ["+p0", "+p1"]), (1.0, ["+p2", "+p3"])]
    time.run()
    assert time.store.count(Pod) == 6


def test_an_empty_feed_is_nothing(engine):
    time = simulated(engine)
    time.feed([])
    time.run()
    assert time.now == 0.0


# -- finishing pods ----------------------------------------------------------------------------------------------------


def test_a_pod_finishes_after_its_duration(engine):
    time = simulated(engine, runs_for=lambda pod: 60.0)
    time.write(create("waits"))
    time.write(create("runs", nodeName="n1"))
    time.at(10.0, bind("waits"))
    time.run()
    assert names_of(engine.news) == [
        (0.0, ["+waits", "+runs"]),
        (10.0, ["~waits"]),
        (60.0, ["-runs"]),
        (70.0, ["-waits"]),
    ]


def test_pods_without_duration_run_forever(engine):
    time = simulated(engine, runs_for=lambda pod: 5.0 if pod.metadata.name == "short" else None)
    time.write(create("short", nodeName="n1"))
    time.write(create("long", nodeName="n1"))
    time.run()
    assert [one.metadata.name for one in time.store.list(Pod)] == ["long"]


def test_the_end_of_a_pod_is_not_that_of_its_successor(engine):
    time = simulated(engine, runs_for=lambda pod: 10.0 if pod.spec.node_name == "n1" else None)
    time.write(create(nodeName="n1"))
    time.at(5.0, delete())
    time.at(6.0, Create(obj=convert(a_pod("web").uid("second").spec(nodeName="n2").obj(), Pod)))
    time.run()
    assert time.store.get(Pod, "default", "web").metadata.uid == "second"


def test_graceful_deletion(engine):
    time = simulated(engine, latency=Latency(deletions=lambda pod: 7.5))
    time.write(create("runs", nodeName="n1"))
    time.write(create("waits"))
    engine.on(Started, delete("runs"), delete("waits"))
    time.run()
    assert names_of(engine.news) == [(0.0, ["+runs", "+waits"]), (0.0, ["~runs", "~waits", "-waits"]), (7.5, ["-runs"])]
    marked = [new for _, _, changes in engine.news for old, new in changes if old is not None and new is not None]
    assert {pod.metadata.name: pod.metadata.deletion_timestamp for pod in marked} == {
        "runs": "1970-01-01T00:00:07Z",
        "waits": "1970-01-01T00:00:00Z",
    }


# -- latency -----------------------------------------------------------------------------------------------------------


def test_latencies_of_requests_responses_and_events(engine):
    time = simulated(engine, latency=Latency(requests=1.0, answers=0.5, watches={Pod: 0.25}))
    time.write(create())
    engine.on(Started, bind())
    time.run()
    assert [at for at, _, _ in engine.answers] == [1.5]
    assert names_of(engine.news) == [(0.25, ["+web"]), (1.25, ["~web"])]


def test_requests_for_one_object_are_serialized(engine):
    slow_first = iter((3.0, 1.0, 1.0))
    time = simulated(engine, latency=Latency(requests=lambda action: next(slow_first), answers=0.5))
    time.write(create("a"))
    time.write(create("b"))
    engine.on(Started, label("1", "a"), label("2", "a"), label("3", "b"))
    time.run()
    found = [(at, action.name, action.body["metadata"]["labels"]["x"]) for at, action, _ in engine.answers]
    assert found == [(1.5, "b", "3"), (3.5, "a", "1"), (5.0, "a", "2")]
    assert time.store.get(Pod, "default", "a").metadata.labels == {"x": "2"}


def test_a_binding_waits_for_other_requests_but_not_vice_versa(engine):
    time = simulated(engine, latency=Latency(requests={Bind: 10.0, Patch: 1.0}))
    time.write(create())
    engine.on(Started, label("1"), bind(), label("2"))
    time.run()
    assert [(at, type(action)) for at, action, _ in engine.answers] == [(1.0, Patch), (2.0, Patch), (11.0, Bind)]


def test_bookkeeping_of_objects_is_cleaned_up(engine):
    time = simulated(engine, latency=Latency(requests=0.5))
    for i in range(5000):
        time.at(float(i), Tick())
        engine.on(Tick, create(f"p{i}"))
    time.run()
    assert len(time._free_at) <= 1025


# -- effects without a result, and withdrawn ones ----------------------------------------------------------------------


def test_events_are_recorded_if_requested(engine):
    told = []
    time = simulated(engine, on_event=told.append)
    engine.on(Started, tell("a"), tell("b"))
    time.run()
    assert [one.note for one in told] == ["a", "b"]
    silent = ScriptedEngine()
    silent.on(Started, tell())
    simulated(silent).run()
    assert len(silent.heard) == 1


def test_calls_of_extenders(engine):
    questions = []
    latency = Latency(requests={Ask: 600.0})
    time = simulated(engine, latency=latency, ask=lambda question: questions.append(question) or Done("yes"))
    engine.on(Started, Ask(who="extender", verb="filter", question=[1]))
    time.run()
    assert [(at, outcome) for at, _, outcome in engine.answers] == [(600.0, Done("yes"))]
    assert questions[0].question == [1]


def test_calls_of_extenders_without_a_handler(engine):
    time = simulated(engine)
    engine.on(Started, Ask(who="extender", verb="filter", question=[1]))
    time.run()
    ((_, _, outcome),) = engine.answers
    assert str(outcome.error) == "there is no one to answer extender in this simulation"


def test_a_withdrawn_request_is_not_sent(engine):
    time = simulated(engine, latency=Latency(requests=1.0, answers=1.0))
    time.write(create("a"))
    time.write(create("b"))
    engine.on(Started, label("x", "a"), label("x", "b"), Wake(1.5))
    engine.on(Started)
    engine.on(Tick, Withdraw(2))
    time.at(0.5, Activated(()))
    engine.on(Activated, Withdraw(1))
    time.run()
    assert engine.answers == []
    labels = {one.metadata.name: one.metadata.labels for one in time.store.list(Pod)}
    assert labels == {"a": {}, "b": {"x": "x"}}, "the second was not carried out first"
    assert time.under_way == 0


def test_withdrawn_in_its_own_step(engine):
    time = simulated(engine)
    time.write(create())
    engine.on(Started, label("x"), Withdraw(1))
    time.run()
    assert engine.answers == []
    assert time.store.get(Pod, "default", "web").metadata.labels == {}


def test_a_cancelled_request_continues(engine):
    time = simulated(engine)
    time.write(create())
    engine.on(Started, label("x"), Cancel(1, "why"))
    time.run()
    assert [type(outcome) for _, _, outcome in engine.answers] == [Done]


def test_inputs_can_be_added_at_any_time(engine):
    time = simulated(engine)
    engine.on(Activated, create())
    time.submit(Activated(()))
    assert [type(one) for _, one in engine.heard] == [Activated], "not processed at once"
    time.run()
    assert len(engine.inputs(Answer)) == 1
