"""PreEnqueue: pods that may not be tried yet."""

import pytest

from stowplan.kube.kubernetes_versions import V1_36, V1_37
from stowplan.scheduler.framework.events import ANY, NODE, POD, PVC, Action, on
from stowplan.scheduler.framework.status import Code, Status
from stowplan.testing import a_node, a_pod
from support.plugins import profiles
from support.scheduling.queues import DEFAULT, QueueHarness, event, plugin_waiting_for

CLOSED = Status(Code.UnschedulableAndUnresolvable, ("closed",))


class Gates:
    """PreEnqueue plugins that can be opened and closed, and record their calls."""

    def __init__(self, *names, shut=()):
        self.shut, self.asked = set(shut), []
        self.plugins = [self._plugin(name) for name in names]

    def _plugin(self, name):
        def answer(info):
            self.asked.append(name)
            return CLOSED if name in self.shut else None

        return plugin_waiting_for(name, on(NODE, Action.Add), pre_enqueue=answer)

    def take_asked(self):
        taken, self.asked[:] = list(self.asked), []
        return taken


def test_a_gated_pod_is_unschedulable():
    gates = Gates("A", shut="A")
    harness = QueueHarness(*gates.plugins)
    harness.add(a_pod("a"))
    queued = harness.queue.get("default/a")
    assert (queued.place.name, queued.gating_plugin, queued.unschedulable_plugins) == ("UNSCHEDULABLE", "A", {"A"})
    assert queued.initial_attempt_timestamp is None
    assert harness.queue.counts() == {"active": 0, "backoff": 0, "unschedulable": 0, "gated": 1}
    assert harness.take_moves() == [("a", "UNSCHEDULABLE", "UnscheduledPodAdd")]
    assert not harness.queue.can_pop


def test_opening_the_gate_activates_the_pod_without_backoff():
    gates = Gates("A", shut="A")
    harness = QueueHarness(*gates.plugins)
    harness.add(a_pod("a"))
    gates.shut.clear()
    harness.now += 7
    harness.handle_event(event(NODE), None, a_node())
    queued = harness.queue.get("default/a")
    assert (queued.place.name, queued.gating_plugin, queued.unschedulable_plugins) == ("ACTIVE", "", {"A"})
    assert queued.initial_attempt_timestamp == harness.now
    assert harness.queue.can_pop


def test_the_first_refusal_ends_the_calls():
    gates = Gates("A", "B", "C", shut="B")
    harness = QueueHarness(*gates.plugins)
    harness.add(a_pod("a"))
    assert gates.take_asked() == ["A", "B"]
    assert harness.gate_of("a") == "B"


def test_the_plugin_that_gated_last_is_called_first():
    gates = Gates("A", "B", "C", shut="B")
    harness = QueueHarness(*gates.plugins)
    harness.add(a_pod("a"))
    gates.take_asked()
    harness.handle_event(event(NODE), None, a_node())
    assert gates.take_asked() == ["B"]
    gates.shut = {"C"}
    harness.handle_event(event(NODE), None, a_node())
    assert gates.take_asked() == ["B", "A", "C"]
    queued = harness.queue.get("default/a")
    assert (queued.gating_plugin, queued.unschedulable_plugins) == ("C", {"B", "C"})


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        pytest.param(LookupError("boom"), "boom", id="raises"),
        pytest.param(Status(Code.Error, ("no luck",)), "no luck", id="an error status"),
    ],
)
def test_a_failing_plugin_gates_and_is_reported(answer, problem):
    harness = QueueHarness(plugin_waiting_for("A", pre_enqueue=answer))
    harness.add(a_pod("a"))
    assert harness.gate_of("a") == "A"
    assert len(harness.problems) == 1
    assert 'PreEnqueue plugin "A" failed on pod default/a' in harness.problems[0]
    assert problem in harness.problems[0]


def test_gates_get_events_registered_in_any_profile():
    shut = set()

    def answer(info):
        return CLOSED if shut else None

    here = plugin_waiting_for("A", on(PVC, Action.Add), pre_enqueue=answer)
    there = plugin_waiting_for("A", on(NODE, Action.Add), pre_enqueue=answer)
    filters = plugin_waiting_for("Filters", on(NODE, Action.Add))
    harness = QueueHarness(profiles={DEFAULT: [here, filters], "other": [there]})
    harness.add_rejected(a_pod("a"), "Filters")
    shut.add("A")
    harness.now += 60
    harness.handle_event(event(NODE), None, a_node())
    assert harness.gate_of("a") == "A"
    shut.clear()
    harness.handle_event(event(NODE), None, a_node())
    assert harness.place("a") == "ACTIVE"


# -- when PreEnqueue runs ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pop_from_backoff", [True, False])
def test_pre_enqueue_runs_before_or_after_the_backoff_queue(pop_from_backoff):
    """Once: on the way in, or without the early pop, on the way out."""
    gates = Gates("A")
    harness = QueueHarness(
        *gates.plugins, plugin_waiting_for("P", on(PVC, Action.Add)), pop_from_backoff=pop_from_backoff
    )
    harness.add_rejected(a_pod("a"), "P")
    gates.take_asked()
    harness.handle_event(event(PVC))
    assert harness.place("a") == "BACKOFF"
    assert gates.take_asked() == (["A"] if pop_from_backoff else [])
    harness.advance_flushing(3)
    assert harness.place("a") == "ACTIVE"
    assert gates.take_asked() == ([] if pop_from_backoff else ["A"])


def test_a_pod_without_profile_is_not_gated():
    pod = a_pod("a").scheduler("unknown")
    harness = QueueHarness(*Gates("A", shut="A").plugins)
    harness.add_rejected(pod, "A")
    harness.now += 60
    harness.handle_event(event(NODE), None, a_node())
    assert harness.place("a") == "UNSCHEDULABLE", "no plugin gates it"
    harness.advance(400)
    assert harness.place("a") == "ACTIVE"


# -- the gates of a pod's own spec ------------------------------------------------------------------------------------


def test_a_gate_registered_for_all_events_is_retried_after_the_timeout():
    """Until 1.36, gates are not, unless their plugin registered for all events."""
    shut = {"Deaf", "All"}

    def gate(name):
        return lambda info: CLOSED if name in shut and info.labels["gate"] == name else None

    harness = QueueHarness(
        plugin_waiting_for("Deaf", on(NODE, Action.All), pre_enqueue=gate("Deaf")),
        plugin_waiting_for("All", on(ANY, Action.All), pre_enqueue=gate("All")),
        max_in_unschedulable=10,
        version=V1_36,
    )
    harness.add(a_pod("deaf").labels(gate="Deaf"), a_pod("all").labels(gate="All"))
    shut.clear()
    harness.advance_flushing(60)
    assert (harness.place("deaf"), harness.place("all")) == ("UNSCHEDULABLE", "ACTIVE")
    assert harness.queue.get("default/deaf").was_flushed


def test_scheduling_gates_from_creation_to_opening():
    harness = QueueHarness(framework=profiles.framework)
    gated = a_pod("a").gated("x", "y")
    harness.add(gated)
    harness.update(gated, a_pod("a").gated("x"))
    assert harness.queue.counts()["gated"] == 1
    harness.handle_event(event(POD, Action.Delete), a_pod("other").on("n"), None)
    harness.advance(400)
    assert harness.queue.counts()["gated"] == 1
    harness.update(a_pod("a").gated("x"), a_pod("a"))
    assert harness.take_moves() == [
        ("a", "UNSCHEDULABLE", "UnscheduledPodAdd"),
        ("a", "ACTIVE", "TargetPodUpdatePodSchedulingGatesEliminated"),
    ]


# -- since 1.37 --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "asked_again"), [(V1_36, False), (V1_37, True)], ids=str)
def test_gated_pods_are_flushed(version, asked_again):
    gates = Gates("A", shut="A")
    harness = QueueHarness(*gates.plugins, version=version, max_in_unschedulable=300.0)
    harness.add(a_pod("a"))
    gates.take_asked()
    harness.advance_flushing(331)
    assert bool(gates.take_asked()) is asked_again
    assert harness.place("a") == "UNSCHEDULABLE"
    gates.shut.clear()
    # It waits as long once more.
    harness.advance_flushing(280)
    assert harness.place("a") == "UNSCHEDULABLE"
    harness.advance_flushing(50)
    assert harness.place("a") == ("ACTIVE" if asked_again else "UNSCHEDULABLE")


@pytest.mark.parametrize(("version", "node"), [(V1_36, ""), (V1_37, "n1")], ids=str)
def test_gated_pods_are_nominated(version, node):
    """A pod that is nominated when it comes reserves room although it is gated."""
    harness = QueueHarness(*Gates("A", shut="A").plugins, version=version)
    info = harness.add(a_pod("a").nominated_to("n1"))
    assert harness.place("a") == "UNSCHEDULABLE"
    assert harness.state.nominator.node_of(info.uid) == node
