"""The requests of PreBind one by one, and concurrent changes by other clients."""

import pytest
from msgspec.structs import replace

from stowplan.kube.api.api_errors import BadRequest, Conflict
from stowplan.kube.api.decode import convert, decode_object, to_dict
from stowplan.kube.api.device_claims import AllocationResult, ResourceClaimConsumerReference
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.framework.requests import Done, Patch, Read, Refused, Wait
from stowplan.scheduler.in_tree.dynamic_resources.binding_conditions import Readiness
from stowplan.scheduler.in_tree.dynamic_resources.writing import (
    FINALIZER,
    ClaimWriter,
    WaitResult,
    WriteError,
    observe_wait,
)
from stowplan.testing import a_pod
from support.observing.metrics import numbers, scheduler_metrics
from support.plugins.devices import DRIVER, a_claim, allocation, exactly

CLAIM = decode_object(a_claim("c", exactly(), resourceVersion="7"))
ALLOCATION = convert(allocation("g0")["allocation"], AllocationResult)
POD = ResourceClaimConsumerReference(resource="pods", name="p", uid="default-p-uid")
CONFLICT = Refused(Conflict("somebody was faster"))


def writer(*objects, now=100.0, timeout=60.0):
    state = ClusterState()
    for obj in objects:
        state.put_object(obj)
    readiness = Readiness(enabled=True, timeout=timeout, wall_clock=lambda: now)
    return ClaimWriter(state, readiness, pod=state.pod_info(decode_object(a_pod("p").obj())))


def ended(steps, *outcomes):
    """The requests of the steps, and what they returned or raised."""
    asked = [next(steps)]
    try:
        for outcome in outcomes:
            asked += [steps.send(outcome)]
    except StopIteration as stop:
        return asked, stop.value
    except WriteError as e:
        return asked, str(e)
    return asked, None


def test_a_claim_is_finalized_then_allocated_and_reserved():
    finalized = replace(CLAIM, metadata=replace(CLAIM.metadata, finalizers=(FINALIZER,), resource_version="8"))
    asked, written = ended(writer().allocate(CLAIM, ALLOCATION, POD), Done(finalized), Done(finalized))
    first, second = asked
    assert first.body == {"metadata": {"resourceVersion": "7", "uid": "c-uid", "finalizers": [FINALIZER]}}
    assert (second.subresource, second.body["metadata"]["resourceVersion"]) == ("status", "8")
    status = second.body["status"]
    assert list(status["reservedFor"]) == [{"resource": "pods", "name": "p", "uid": "default-p-uid"}]
    assert status["allocation"]["allocationTimestamp"] == "1970-01-01T00:01:40Z"
    assert written == finalized


def test_an_allocation_that_exists_is_not_written_again():
    """It is immutable, even if it lacks a timestamp because an older scheduler wrote it."""
    allocated = decode_object(a_claim("c", exactly(), status=allocation("g0"), resourceVersion="7"))
    asked, written = ended(writer().reserve(allocated, POD), Done(None))
    assert list(asked[0].body["status"]) == ["reservedFor"]
    assert written.status.allocation == allocated.status.allocation
    assert [user.name for user in written.status.reserved_for] == ["p"]


def test_after_a_conflict_the_claim_is_reread():
    newer = replace(CLAIM, metadata=replace(CLAIM.metadata, finalizers=(FINALIZER,), resource_version="9"))
    asked, _ = ended(writer().allocate(CLAIM, ALLOCATION, POD), CONFLICT, Done(0.01), Done(newer))
    assert [type(step) for step in asked] == [Patch, Wait, Read, Patch]
    assert asked[-1].body["metadata"]["resourceVersion"] == "9"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"status": {"allocation": {}}}, "claim default/c got allocated elsewhere in the meantime"),
        ({"deletionTimestamp": "2026-01-01T00:00:00Z"}, "claim default/c got deleted in the meantime"),
    ],
)
def test_concurrent_changes_of_the_claim_are_errors(changes, message):
    newer = decode_object(a_claim("c", exactly(), **changes))
    assert ended(writer().allocate(CLAIM, ALLOCATION, POD), CONFLICT, Done(0.01), Done(newer))[1] == message


def test_a_refused_write_is_an_error():
    problem = ended(writer().allocate(CLAIM, ALLOCATION, POD), Refused(BadRequest("no")))[1]
    assert problem == "add finalizer to claim default/c: no"


def test_a_claim_that_was_deallocated_is_not_reserved():
    with pytest.raises(WriteError, match="claim default/c got deallocated elsewhere in the meantime"):
        next(writer().reserve(CLAIM, POD))


CONDITIONS = {"bindingConditions": ["Attached"], "bindingFailureConditions": ["Broken"]}


def waiting_claim(*true, allocated="1970-01-01T00:01:00Z"):
    status = allocation("g0", **CONDITIONS)
    status["allocation"]["allocationTimestamp"] = allocated
    conditions = [{"type": type_, "status": "True", "reason": "R", "message": "m"} for type_ in true]
    status["devices"] = [{"driver": DRIVER, "pool": "p", "device": "g0", "conditions": conditions}]
    return decode_object(a_claim("c", exactly(), status=status))


@pytest.mark.parametrize(
    ("claim", "now", "message", "status"),
    [
        (waiting_claim("Attached"), 100, None, "success"),
        (waiting_claim("Broken"), 100, 'device binding failed: claim=c, reason=R, message="m"', "failure"),
        (waiting_claim(), 121, "device binding timeout: claim=c", "timeout"),
    ],
)
def test_binding_conditions(claim, now, message, status):
    with pytest.raises(StopIteration) as end:
        next(writer(claim, now=now).wait(["default/c"]))
    assert (end.value.value.problem and str(end.value.value.problem)) == message
    assert end.value.value.status == status


def test_binding_conditions_time_out():
    steps = writer(waiting_claim(), now=100, timeout=60).wait(["default/c"])
    first = next(steps)
    assert (first.keys, first.seconds) == (frozenset({("ResourceClaim", "default/c")}), 5.0)
    with pytest.raises(StopIteration) as end:
        steps.send(Done(60.0))
    waited = end.value.value
    assert str(waited.problem) == "device binding timeout: context deadline exceeded"
    assert (waited.status, waited.seconds) == ("timeout", 60.0)


def test_a_deleted_claim_ends_the_wait():
    with pytest.raises(StopIteration) as end:
        next(writer().wait(["default/c"]))
    assert (str(end.value.value.problem), end.value.value.status) == (
        'could not find ResourceClaim "default/c"',
        "error",
    )


def test_waits_are_counted():
    metrics = scheduler_metrics()
    plain = decode_object(a_claim("d", exactly(), status=allocation("g1", "g2")))
    observe_wait(metrics, "default-scheduler", [waiting_claim(), plain, CLAIM], WaitResult(7.0))
    labels = ("default-scheduler", DRIVER, "success")
    assert numbers(metrics.dra_bindingconditions_allocations_total) == {labels: 1}
    assert numbers(metrics.dra_bindingconditions_wait_duration_seconds) == {labels: 3}


def shared(*holders):
    """A writer for pod p, and a state in which these pods hold the claim."""
    made = writer(CLAIM)
    state = made._cluster
    state.in_flight.hold("default/c", replace(CLAIM, status=replace(CLAIM.status, allocation=ALLOCATION)), holders[0])
    for holder in holders[1:]:
        state.in_flight.share(type(CLAIM), "default/c", holder)
    return made, state.in_flight


def test_the_first_holder_of_a_shared_claim_writes_it():
    made, _ = shared("default-p-uid", "other")
    with pytest.raises(StopIteration) as stop:
        next(made.turn(CLAIM))
    assert stop.value.value == (CLAIM, True)


@pytest.mark.parametrize("gave_up", [False, True])
def test_other_holders_wait_for_the_write(gave_up):
    made, in_flight = shared("other", "default-p-uid")
    steps = made.turn(CLAIM)
    assert next(steps) == Wait(keys=frozenset({("ResourceClaim", "default/c")}))
    written = decode_object(a_claim("c", exactly(), status=allocation("g0"), resourceVersion="9"))
    if gave_up:
        in_flight.release(type(CLAIM), "default/c", "other")
    else:
        in_flight.wrote(written)
    with pytest.raises(StopIteration) as stop:
        steps.send(Done(0.0))
    assert stop.value.value == ((CLAIM, True) if gave_up else (written, False))


def test_reservations_cannot_conflict_with_each_other():
    allocated = decode_object(a_claim("c", exactly(), status=allocation("g0"), resourceVersion="7"))
    asked, _ = ended(writer().reserve(allocated, POD), Done(None))
    assert asked[0].body == {"metadata": {"uid": "c-uid"}, "status": {"reservedFor": [dict(to_dict(POD))]}}
    assert (asked[0].type_, asked[0].subresource) == ("strategic", "status")
    assert ended(writer().reserve(allocated, POD), Refused(BadRequest("no")))[1] == (
        "add reservation to claim default/c: no"
    )


def test_a_reservation_is_tried_again_after_a_conflict():
    allocated = decode_object(a_claim("c", exactly(), status=allocation("g0")))
    asked, written = ended(writer().reserve(allocated, POD), CONFLICT, Done(0.01), Done(None))
    assert [type(step) for step in asked] == [Patch, Wait, Patch]
    assert [user.name for user in written.status.reserved_for] == ["p"]
    assert ended(writer().reserve(allocated, POD), *(CONFLICT, Done(0.01)) * 4, CONFLICT)[1] == (
        "add reservation to claim default/c: somebody was faster"
    )
