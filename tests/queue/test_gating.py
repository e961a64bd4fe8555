"""PreEnqueue: pods that may not be tried yet."""

import pytest

from stowplan.framework.events import ANY, NODE, POD, PVC, Action, on
from stowplan.framework.status import Code, Status
from stowplan.testing import a_node, a_pod
from support.plugins import profiles
from support.scheduling.queues import DEFAULT, Room, event, waits_for

CLOSED = Status(Code.UnschedulableAndUnresolvable, ("closed",))


class Gates:
    """PreEnqueue plugins that can be opened and shut, and remember who asked."""

    def __init__(self, *names, shut=()):
        self.shut, self.asked = set(shut), []
        self.plugins = [self._plugin(name) for name in names]

    def _plugin(self, name):
        def answer(info):
            self.asked.append(name)
            return CLOSED if name in self.shut else None

        return waits_for(name, on(NODE, Action.Add), pre_enqueue=answer)

    def take_asked(self):
        taken, self.asked[:] = list(self.asked), []
        return taken


def test_a_gated_pod_sleeps():
    gates = Gates("A", shut="A")
    room = Room(*gates.plugins)
    room.add(a_pod("a"))
    queued = room.queue.get("default/a")
    assert (queued.place.name, queued.gating_plugin, queued.unschedulable_plugins) == ("UNSCHEDULABLE", "A", {"A"})
    assert queued.gating_plugin_events == (event(NODE), event(NODE, Action.UpdateNodeTaint))
    assert queued.initial_attempt_timestamp is None
    assert room.queue.counts() == {"active": 0, "backoff": 0, "unschedulable": 0, "gated": 1}
    assert room.take_moves() == [("a", "UNSCHEDULABLE", "UnschedulablePodAdd")]
    assert not room.queue.can_pop


def test_when_the_gate_opens_the_pod_is_active_without_backoff():
    gates = Gates("A", shut="A")
    room = Room(*gates.plugins)
    room.add(a_pod("a"))
    gates.shut.clear()
    room.now += 7
    room.happens(event(NODE), None, a_node())
    queued = room.queue.get("default/a")
    assert (queued.place.name, queued.gating_plugin, queued.unschedulable_plugins) == ("ACTIVE", "", {"A"})
    assert queued.initial_attempt_timestamp == room.now
    assert room.queue.can_pop


def test_the_first_plugin_that_refuses_ends_the_questions():
    gates = Gates("A", "B", "C", shut="B")
    room = Room(*gates.plugins)
    room.add(a_pod("a"))
    assert gates.take_asked() == ["A", "B"]
    assert room.gate_of("a") == "B"


def test_the_plugin_that_gated_last_is_asked_first():
    gates = Gates("A", "B", "C", shut="B")
    room = Room(*gates.plugins)
    room.add(a_pod("a"))
    gates.take_asked()
    room.happens(event(NODE), None, a_node())
    assert gates.take_asked() == ["B"]
    gates.shut = {"C"}
    room.happens(event(NODE), None, a_node())
    assert gates.take_asked() == ["B", "A", "C"]
    queued = room.queue.get("default/a")
    assert (queued.gating_plugin, queued.unschedulable_plugins) == ("C", {"B", "C"})


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        pytest.param(LookupError("boom"), "boom", id="raises"),
        pytest.param(Status(Code.Error, ("no luck",)), "no luck", id="an error status"),
    ],
)
def test_a_plugin_that_fails_gates_and_is_told_of(answer, problem):
    room = Room(waits_for("A", pre_enqueue=answer))
    room.add(a_pod("a"))
    assert room.gate_of("a") == "A"
    assert len(room.problems) == 1
    assert 'PreEnqueue plugin "A" failed on pod default/a' in room.problems[0]
    assert problem in room.problems[0]


def test_a_refusal_is_no_problem():
    room = Room(*Gates("A", shut="A").plugins)
    room.add(a_pod("a"))
    assert room.problems == []


def test_a_gate_hears_what_its_plugin_registered_in_any_profile():
    closed = waits_for("A", on(PVC, Action.Add), pre_enqueue=CLOSED)
    other = waits_for("A", on(NODE, Action.Add), pre_enqueue=CLOSED)
    room = Room(profiles={DEFAULT: [closed], "other": [other]})
    room.add(a_pod("a"))
    assert set(room.queue.get("default/a").gating_plugin_events) >= {event(PVC), event(NODE)}


def test_an_event_that_only_another_rejecting_plugin_waits_for_does_not_open_a_gate():
    gates = Gates("A")
    room = Room(*gates.plugins, waits_for("Filters", on(PVC, Action.Add), on(NODE, Action.Add)))
    room.rejected(a_pod("a"), "Filters")
    gates.shut = {"A"}
    room.now += 60
    room.happens(event(PVC))
    assert room.gate_of("a") == "A"
    gates.shut = set()
    room.happens(event(PVC))
    assert room.place("a") == "UNSCHEDULABLE", "the gate's plugin does not wait for claims"
    room.happens(event(NODE), None, a_node())
    assert room.place("a") == "ACTIVE"


# -- when PreEnqueue runs ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pop_from_backoff", [True, False])
def test_before_the_backoff_queue_or_after_it(pop_from_backoff):
    """Once: on the way in, or with the early pop switched off on the way out."""
    gates = Gates("A")
    room = Room(*gates.plugins, waits_for("P", on(PVC, Action.Add)), pop_from_backoff=pop_from_backoff)
    room.rejected(a_pod("a"), "P")
    gates.take_asked()
    room.happens(event(PVC))
    assert room.place("a") == "BACKOFF"
    assert gates.take_asked() == (["A"] if pop_from_backoff else [])
    room.goes_on(3)
    assert room.place("a") == "ACTIVE"
    assert gates.take_asked() == ([] if pop_from_backoff else ["A"])


@pytest.mark.parametrize("pop_from_backoff", [True, False])
def test_a_pod_that_is_gated_on_its_way_through_backoff(pop_from_backoff):
    gates = Gates("A")
    room = Room(*gates.plugins, waits_for("P", on(PVC, Action.Add)), pop_from_backoff=pop_from_backoff)
    room.rejected(a_pod("a"), "P")
    gates.shut = {"A"}
    room.happens(event(PVC))
    assert room.place("a") == ("UNSCHEDULABLE" if pop_from_backoff else "BACKOFF")
    room.goes_on(3)
    assert room.place("a") == "UNSCHEDULABLE"
    assert room.gate_of("a") == "A"


def test_a_pod_that_met_an_error_is_asked_before_it_backs_off():
    gates = Gates("A")
    room = Room(*gates.plugins)
    room.add(a_pod("a"))
    queued = room.queue.pop()
    gates.shut = {"A"}
    room.fails(queued)
    assert room.gate_of("a") == "A"
    assert queued.unschedulable_plugins == {"A"}


def test_a_gated_pod_of_a_name_that_is_active_is_dropped():
    gates = Gates("A")
    room = Room(*gates.plugins)
    room.add(a_pod("a").uid("1"))
    gates.shut = {"A"}
    room.add(a_pod("a").uid("2"))
    assert room.queue.get("default/a").pod.uid == "1"
    assert room.place("a") == "ACTIVE"


def test_plugins_of_the_pods_own_profile_are_asked():
    room = Room(profiles={DEFAULT: [], "other": Gates("A", shut="A").plugins})
    room.add(a_pod("a"), a_pod("b").scheduler("other"))
    assert (room.place("a"), room.place("b")) == ("ACTIVE", "UNSCHEDULABLE")


def test_a_pod_of_no_profile_is_gated_by_nobody():
    pod = a_pod("a").scheduler("unknown")
    room = Room(*Gates("A", shut="A").plugins)
    room.rejected(pod, "A")
    room.now += 60
    room.happens(event(NODE), None, a_node())
    assert room.place("a") == "UNSCHEDULABLE", "nobody speaks for it"
    room.passes(400)
    assert room.place("a") == "ACTIVE"


# -- switching plugins off --------------------------------------------------------------------------------------------


def test_pods_of_a_plugin_that_was_switched_off_are_tried_again():
    gates = Gates("A", shut="A")
    room = Room(*gates.plugins, waits_for("P"), waits_for("Q"))
    room.add(a_pod("gated"))
    framework = room.frameworks[DEFAULT]
    framework.switch_off(["A"])
    room.rejected(a_pod("p"), "P")
    room.rejected(a_pod("q"), "Q")
    room.now += 60
    framework.switch_off(["P"])
    room.queue.register()
    assert [room.place(n) for n in ("gated", "p", "q")] == ["ACTIVE", "ACTIVE", "UNSCHEDULABLE"]
    assert ("p", "ACTIVE", "PluginsChanged") in room.moves
    framework.switch_on(["A", "P"])
    room.queue.register()
    assert room.place("q") == "UNSCHEDULABLE"


def test_what_is_registered_is_read_anew():
    room = Room(waits_for("P"))
    room.rejected(a_pod("a"), "P")
    room.now += 60
    room.happens(event(NODE), None, a_node())
    assert room.place("a") == "UNSCHEDULABLE"
    room.frameworks[DEFAULT].registered_events = lambda: {"P": [on(NODE, Action.Add)]}
    room.queue.register()
    room.happens(event(NODE), None, a_node())
    assert room.place("a") == "ACTIVE"


# -- the gates of a pod's own spec ------------------------------------------------------------------------------------


def test_a_gate_that_waits_for_anything_is_opened_by_the_timeout():
    """Gates are not, unless their plugin asked for everything there is."""
    shut = {"Deaf", "All"}

    def gate(name):
        return lambda info: CLOSED if name in shut and info.labels["gate"] == name else None

    room = Room(
        waits_for("Deaf", on(NODE, Action.All), pre_enqueue=gate("Deaf")),
        waits_for("All", on(ANY, Action.All), pre_enqueue=gate("All")),
        max_in_unschedulable=10,
    )
    room.add(a_pod("deaf").labels(gate="Deaf"), a_pod("all").labels(gate="All"))
    shut.clear()
    room.passes(60)
    assert (room.place("deaf"), room.place("all")) == ("UNSCHEDULABLE", "ACTIVE")
    assert room.queue.get("default/deaf").was_flushed


def test_the_life_of_scheduling_gates():
    room = Room(framework=profiles.framework)
    gated = a_pod("a").gated("x", "y")
    room.add(gated)
    room.update(gated, a_pod("a").gated("x"))
    assert room.queue.counts()["gated"] == 1
    room.happens(event(POD, Action.Delete), a_pod("other").on("n"), None)
    room.passes(400)
    assert room.queue.counts()["gated"] == 1
    room.update(a_pod("a").gated("x"), a_pod("a"))
    assert room.take_moves() == [
        ("a", "UNSCHEDULABLE", "UnschedulablePodAdd"),
        ("a", "ACTIVE", "UnschedulablePodUpdatePodSchedulingGatesEliminated"),
    ]
