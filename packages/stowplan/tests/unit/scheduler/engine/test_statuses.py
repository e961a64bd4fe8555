"""Pod statuses on their way to the API, with scripted answers in virtual time."""

import pytest
from msgspec.structs import replace

from stowplan.kube.api.api_errors import Conflict, Forbidden, InternalError, NotFound, ServiceUnavailable
from stowplan.kube.api.decode import DecodeError, convert
from stowplan.kube.api.port import Unreachable
from stowplan.kube.api.types import ObjectMeta, Pod, PodCondition, PodSpec, PodStatus
from stowplan.kube.timing.times import START as EPOCH
from stowplan.net.client.client_errors import OutcomeUnknown
from stowplan.scheduler.engine.statuses import MAX_CONCURRENT_PATCHES, PodStatuses
from support.scheduling.scripted_effects import ScriptedEffects

AWAY = Unreachable("https://s: connection refused")
START = "2027-01-15T08:00:00Z"


def a_pod(name="web-0", *, version=7, node="", nominated="", uid="", **condition):
    conditions = (failed(**condition),) if condition else ()
    return Pod(
        metadata=ObjectMeta(
            name=name, namespace="default", uid=uid or f"{name}-uid", resource_version=str(version), generation=1
        ),
        spec=PodSpec(node_name=node),
        status=PodStatus(conditions=conditions, nominated_node_name=nominated),
    )


def failed(message="no room", *, since=None, type_="PodScheduled", status="False"):
    return PodCondition(
        type=type_,
        status=status,
        reason="Unschedulable",
        message=message,
        observed_generation=1,
        last_transition_time=since,
    )


class Listener:
    """Records how patches ended, and the end of withdrawals."""

    def __init__(self):
        self.heard = []

    def status_written(self, failed):
        self.heard.append(failed)

    def withdrawn(self):
        self.heard.append("withdrawn")


class Withdrawal:
    """Tells a listener the end of a withdrawal, as another thing than that of a patch."""

    def __init__(self, listener):
        self.listener = listener

    def status_written(self, failed):
        assert failed is None
        self.listener.withdrawn()


class Setup:
    def __init__(self):
        self.effects = ScriptedEffects()
        self.effects.outbox.ahead = EPOCH
        self.said = []
        self.statuses = PodStatuses(
            self.effects.outbox,
            random=lambda: 0.5,
            report=self.said.append,
        )
        self.effects.checks.append(self.statuses.problems)

    def write(self, pod, message="no room", **more):
        with self.effects.step():
            self.statuses.write(pod, condition=failed(message), **more)

    def patch(self, pod, **more):
        listener = Listener()
        with self.effects.step():
            self.statuses.patch(pod, listener, **more)
        return listener

    def observe(self, pod):
        with self.effects.step():
            self.statuses.observe(pod)

    def forget(self, uid="web-0-uid"):
        with self.effects.step():
            self.statuses.forget(uid)

    def withdraw(self, uid="web-0-uid"):
        """The listener, if it has to wait."""
        listener = Listener()
        with self.effects.step():
            waits = self.statuses.withdraw(uid, Withdrawal(listener))
        return listener if waits else None

    def last_try(self):
        with self.effects.step():
            self.statuses.last_try()

    @property
    def remembered(self):
        return len(self.statuses._known)

    @property
    def requests(self):
        return self.effects.actions

    @property
    def bodies(self):
        return [request.body for request in self.requests]

    @property
    def messages(self):
        """The message of each request."""
        return [condition.get("message") for body in self.bodies for condition in body["status"].get("conditions", ())]


@pytest.fixture
def setup():
    return Setup()


# -- what is sent ------------------------------------------------------------------------------------------------------


def test_a_failure_is_written_to_the_status(setup):
    with setup.effects.step():
        setup.statuses.write(a_pod(), condition=failed(), nominated_node_name="n1")
        assert not setup.statuses.idle
    assert not setup.statuses.idle
    assert setup.statuses.under_way == 1
    setup.effects.answer()
    assert setup.statuses.idle
    assert setup.statuses.under_way == 0
    (request,) = setup.requests
    assert (request.kind, request.namespace, request.name) == (Pod, "default", "web-0")
    assert (request.type_, request.subresource, request.lane) == ("strategic", "status", "status")
    assert request.body == {
        "status": {
            "conditions": [
                {
                    "lastProbeTime": None,
                    "lastTransitionTime": START,
                    "message": "no room",
                    "observedGeneration": 1,
                    "reason": "Unschedulable",
                    "status": "False",
                    "type": "PodScheduled",
                }
            ],
            "nominatedNodeName": "n1",
        }
    }


def test_nothing_is_sent_when_nothing_changes(setup):
    setup.write(a_pod(message="no room", since=START), nominated_node_name="")
    with setup.effects.step():
        setup.statuses.write(a_pod())
    assert setup.statuses.idle
    assert setup.requests == []
    assert setup.remembered == 0


def test_the_transition_time_is_that_of_the_failure_not_of_the_request(setup):
    for number in range(20):
        setup.write(a_pod(f"p{number}"))
    setup.effects.advance(10.0)
    setup.effects.answer_all()
    times = {body["status"]["conditions"][0]["lastTransitionTime"] for body in setup.bodies}
    assert times == {START}
    assert len(setup.bodies) == 20


# -- the newest status wins --------------------------------------------------------------------------------------------


def test_an_unsent_condition_determines_the_transition_time(setup):
    for number in range(MAX_CONCURRENT_PATCHES):
        setup.write(a_pod(f"p{number}"))
    setup.write(a_pod(), "first")
    setup.effects.advance(10.0)
    setup.write(a_pod(), "second")
    setup.effects.answer_all()
    last = setup.bodies[-1]["status"]["conditions"][0]
    assert (last["message"], last["lastTransitionTime"]) == ("second", START)


def test_statuses_written_during_a_request_are_merged(setup):
    setup.write(a_pod(), "first")
    setup.write(a_pod(), "second")
    setup.write(a_pod(), "third", nominated_node_name="")
    assert setup.messages == ["first"]
    assert len(setup.effects.under_way) == 1
    setup.effects.answer(a_pod(version=8, message="first", since=START))
    # The second patch is relative to the first one's answer.
    assert setup.bodies[1:] == [
        {
            "status": {
                "$setElementOrder/conditions": [{"type": "PodScheduled"}],
                "conditions": [{"message": "third", "type": "PodScheduled"}],
            }
        }
    ]


def test_a_patch_is_relative_to_the_last_answer_until_the_informer_has_caught_up(setup):
    setup.write(a_pod(version=7), "first")
    setup.effects.answer(a_pod(version=9, message="first", since=START))
    setup.observe(a_pod(version=8))
    setup.write(a_pod(version=8), "first")
    assert len(setup.requests) == 1
    assert setup.remembered == 1
    setup.observe(a_pod(version=9, message="first", since=START))
    assert setup.remembered == 0


def test_an_answer_about_another_pod_of_the_same_name_is_ignored(setup):
    setup.write(a_pod())
    setup.effects.answer(a_pod(version=9, uid="another", message="no room", since=START))
    setup.write(a_pod(), "second")
    assert "$setElementOrder/conditions" not in setup.bodies[1]["status"]


# -- deleted and bound pods --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "leave",
    [
        pytest.param(lambda statuses: statuses.forget("web-0-uid"), id="gone"),
        pytest.param(lambda statuses: statuses.observe(a_pod(version=8, node="n1")), id="bound"),
    ],
)
def test_nothing_is_written_for_a_deleted_or_bound_pod(setup, leave):
    with setup.effects.step():
        setup.statuses.write(a_pod(), condition=failed())
        leave(setup.statuses)
    assert setup.requests == []
    assert setup.remembered == 0


def test_a_victim_can_be_written_to_though_it_is_bound(setup):
    victim = a_pod(node="n1")
    patching = setup.patch(victim, condition=failed("preempted", type_="DisruptionTarget", status="True"))
    setup.effects.answer(replace(victim, metadata=replace(victim.metadata, resource_version="8")))
    assert patching.heard == [None]
    assert setup.messages == ["preempted"]
    assert setup.remembered == 0


def test_a_binding_neither_waits_for_a_victims_condition_nor_drops_it(setup):
    target = {"type_": "DisruptionTarget", "status": "True"}
    first = setup.patch(a_pod(), condition=failed("preempted", **target))
    assert setup.withdraw() is None
    again = setup.patch(a_pod(), condition=failed("preempted again", **target))
    assert setup.withdraw() is None
    setup.effects.answer_all()
    assert (first.heard, again.heard) == ([None], [None])
    assert setup.messages == ["preempted", "preempted again"]
    assert setup.remembered == 0


# -- awaited -----------------------------------------------------------------------------------------------------------


def test_an_awaited_patch_includes_pending_changes_and_overtakes_other_pods(setup):
    with setup.effects.step():
        for number in range(50):
            setup.statuses.write(a_pod(f"p{number}"), condition=failed())
        setup.statuses.write(a_pod(), condition=failed("waits"), nominated_node_name="n1")
        setup.statuses.patch(a_pod(), Listener(), nominated_node_name="n2")
    request = setup.requests[0]
    assert (request.name, request.lane) == ("web-0", "default")
    assert request.body["status"]["nominatedNodeName"] == "n2"
    assert setup.messages[0] == "waits"
    setup.effects.answer_all()
    assert len(setup.requests) == 51
    assert setup.statuses.idle


def test_an_awaited_patch_ignores_the_limit(setup):
    for number in range(50):
        setup.write(a_pod(f"p{number}"))
    for number in range(50):
        setup.patch(a_pod(f"v{number}"), nominated_node_name="n1")
    assert setup.statuses.under_way == MAX_CONCURRENT_PATCHES + 50
    lanes = [request.lane for request in setup.requests]
    assert lanes == ["status"] * MAX_CONCURRENT_PATCHES + ["default"] * 50


def test_a_listener_may_write_again(setup):
    class Insatiable(Listener):
        def status_written(self, failed):
            super().status_written(failed)
            if len(self.heard) < 4:
                setup.statuses.patch(a_pod(), self, nominated_node_name=f"n{len(self.heard)}")

        def withdrawn(self):
            super().withdrawn()
            setup.statuses.write(a_pod(), condition=failed("after all"))

    listener = Insatiable()
    with setup.effects.step():
        setup.statuses.patch(a_pod(), listener, nominated_node_name="n0")
        assert setup.statuses.withdraw("web-0-uid", Withdrawal(listener))
    setup.effects.answer_all()
    assert listener.heard == ["withdrawn", None, None, None]
    assert [body["status"].get("nominatedNodeName") for body in setup.bodies] == ["n0", "n2", "n3"]
    assert setup.messages == ["after all"]


# -- failures ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error", [AWAY, InternalError("i"), ServiceUnavailable("s"), Conflict("c")], ids=lambda error: type(error).__name__
)
def test_four_tries_with_increasing_delays(setup, error):
    setup.effects.answers.extend([error] * 4)
    setup.write(a_pod())
    setup.effects.answer()
    pauses = []
    while setup.effects.pauses:
        pauses += setup.effects.pauses
        setup.effects.advance(setup.effects.pauses[0])
        setup.effects.answer()
    assert pauses == pytest.approx([0.0105, 0.0525, 0.2625])
    assert len(setup.requests) == 4
    assert setup.said == [f"A pod's status cannot be written: default/web-0: {error}"]
    # The next failure writes it.
    setup.write(a_pod())
    assert len(setup.requests) == 5


def test_a_newer_status_has_its_own_tries(setup):
    setup.effects.answers.extend([AWAY] * 10)
    setup.write(a_pod(), "first")
    for _ in range(3):
        setup.effects.answer()
        setup.effects.advance(1.0)
    setup.write(a_pod(), "second")
    while setup.effects.under_way:
        setup.effects.answer()
        setup.effects.advance(2.0)
    # The fourth try of the first patch was the last, as the second was written after it was sent.
    assert setup.messages == ["first"] * 4 + ["second"] * 4
    assert len(setup.said) == 1


@pytest.mark.parametrize(
    ("error", "said"), [(Forbidden("not you"), 1), (OutcomeUnknown("cut"), 1), (NotFound("no such pod"), 0)]
)
def test_other_errors_are_not_retried(setup, error, said):
    setup.write(a_pod())
    setup.effects.answer(error)
    assert setup.effects.pauses == []
    assert len(setup.requests) == 1
    assert len(setup.said) == said
    assert setup.remembered == 0


def test_an_undecodable_answer_counts_as_success(setup):
    patching = setup.patch(a_pod(), nominated_node_name="n1")
    setup.effects.answer(DecodeError(field="spec", message="odd"))
    assert patching.heard == [None]
    assert len(setup.requests) == 1
    assert setup.said == ["The API server returned a pod that cannot be decoded: default/web-0: spec: odd"]


def test_an_internal_error_affects_one_pods_status_and_is_reported(setup):
    setup.write(a_pod("odd"))
    setup.effects.answer(TypeError("bug"))
    setup.write(a_pod())
    setup.effects.answer()
    assert setup.said == ["Writing a pod's status fails: default/odd: TypeError('bug')"]
    assert [request.name for request in setup.requests] == ["odd", "web-0"]
    assert setup.statuses.idle


def test_an_internal_error_is_reported_to_all_awaiting_listeners(setup):
    first, *more = [setup.patch(a_pod(), nominated_node_name=f"n{number}") for number in range(3)]
    bug = TypeError("bug")
    setup.effects.answers.extend([None, bug])
    setup.effects.answer_all()
    assert first.heard == [None]
    assert [patching.heard for patching in more] == [[bug], [bug]]
    assert len(setup.requests) == 2
    assert setup.statuses.idle


def test_only_an_awaited_patch_in_retry_counts_as_idle(setup):
    patching = setup.patch(a_pod(), nominated_node_name="n1")
    assert not setup.statuses.idle
    setup.effects.answer(AWAY)
    assert setup.effects.pauses
    assert setup.statuses.idle
    setup.write(a_pod("other"))
    assert not setup.statuses.idle
    setup.effects.answer()
    assert setup.statuses.idle
    assert patching.heard == []
    setup.effects.advance(1.0)
    setup.effects.answer()
    assert patching.heard == [None]
    assert setup.statuses.idle


def test_patches_in_retry_occupy_slots(setup):
    for number in range(MAX_CONCURRENT_PATCHES + 1):
        setup.write(a_pod(f"p{number}"))
    for _ in range(MAX_CONCURRENT_PATCHES):
        setup.effects.answer(AWAY)
    assert setup.statuses.idle
    assert len(setup.requests) == MAX_CONCURRENT_PATCHES
    # One of them is awaited now, so its slot is free.
    setup.patch(a_pod("p3"), nominated_node_name="n1")
    assert [request.name for request in setup.requests[-2:]] == ["p3", f"p{MAX_CONCURRENT_PATCHES}"]


# -- many --------------------------------------------------------------------------------------------------------------


def test_many_patches_are_sent_with_limited_concurrency(setup):
    with setup.effects.step():
        for _ in range(3):
            for number in range(1000):
                setup.statuses.write(a_pod(f"p{number}"), condition=failed())
    setup.effects.checks.clear()
    assert len(setup.effects.under_way) == MAX_CONCURRENT_PATCHES
    steps = 0
    while not setup.statuses.idle:
        setup.effects.answer()
        assert len(setup.effects.under_way) <= MAX_CONCURRENT_PATCHES
        steps += 1
    assert len(setup.requests) == steps == 1000


# -- the end -----------------------------------------------------------------------------------------------------------


def test_at_shutdown_pending_patches_are_sent_once(setup):
    setup.effects.answers.extend([AWAY] * 10 + [None] * 10)
    for number in range(20):
        setup.write(a_pod(f"p{number}"))
    setup.last_try()
    setup.effects.answer_all()
    assert setup.statuses.idle
    assert len(setup.requests) == 20
    assert setup.effects.now == 0.0
    setup.statuses.close()
    assert setup.said == [
        "A pod's status cannot be written: default/p0: https://s: connection refused",
        "A pod's status cannot be written: 9 more since the last report",
    ]


def test_at_shutdown_patches_in_retry_are_sent_at_once(setup):
    setup.write(a_pod("a"))
    patching = setup.patch(a_pod("b"), nominated_node_name="n1")
    setup.effects.answer(AWAY)
    setup.effects.answer(AWAY)
    assert len(setup.effects.pauses) == 2
    setup.last_try()
    assert setup.effects.pauses == []
    setup.effects.answer(AWAY)
    setup.effects.answer(AWAY)
    assert patching.heard == [AWAY]
    assert len(setup.requests) == 4
    assert setup.statuses.idle
    assert setup.remembered == 0


def test_pods_without_uid_or_version_are_distinguished_by_name(setup):
    setup.write(convert({"metadata": {"name": "a"}}, Pod))
    setup.write(convert({"metadata": {"name": "b"}}, Pod))
    assert [(request.namespace, request.name) for request in setup.requests] == [("default", "a"), ("default", "b")]
