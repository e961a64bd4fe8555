"""The patches of a pod's status, byte for byte as the reference sends them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.kube.api.decode import convert
from stowplan.kube.api.types import Pod, PodCondition, PodStatus
from stowplan.scheduler.engine.statuses import status_patch
from support.api.embedded import Api
from support.api.embedded import pod as pod_dict

THEN, NOW = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"


def condition(message="no room", *, type_="PodScheduled", status="False", reason="Unschedulable", since=NOW, seen=1):
    return PodCondition(
        type=type_, status=status, reason=reason, message=message, last_transition_time=since, observed_generation=seen
    )


FAILED = condition(since=THEN)
READY = condition("", type_="Ready", status="True", reason="", since=THEN)
WHOLE = (
    '{"lastProbeTime":null,"lastTransitionTime":"2026-01-01T00:01:00Z","message":"no room","observedGeneration":1,'
    '"reason":"Unschedulable","status":"False","type":"PodScheduled"}'
)
ORDER = '"$setElementOrder/conditions":[{"type":"PodScheduled"}]'


@pytest.mark.parametrize(
    ("old", "nominated", "new", "node", "body"),
    [
        pytest.param((), "", condition(), None, f'"conditions":[{WHOLE}]', id="first failure"),
        pytest.param((), "", condition(), "", f'"conditions":[{WHOLE}]', id="nothing to clear"),
        pytest.param(
            (), "", condition(), "n1", f'"conditions":[{WHOLE}],"nominatedNodeName":"n1"', id="first, nominated"
        ),
        pytest.param(
            (READY,),
            "",
            condition(),
            None,
            f'"$setElementOrder/conditions":[{{"type":"Ready"}},{{"type":"PodScheduled"}}],"conditions":[{WHOLE}]',
            id="beside another",
        ),
        pytest.param(
            (FAILED,),
            "",
            condition("still no"),
            None,
            f'{ORDER},"conditions":[{{"message":"still no","type":"PodScheduled"}}]',
            id="another message",
        ),
        pytest.param(
            (FAILED,),
            "",
            condition("broken", reason="SchedulerError", seen=2),
            None,
            f'{ORDER},"conditions":[{{"message":"broken","observedGeneration":2,"reason":"SchedulerError",'
            '"type":"PodScheduled"}]',
            id="another reason",
        ),
        pytest.param(
            (condition("", status="True", reason="", since=THEN),),
            "",
            condition(),
            None,
            f'{ORDER},"conditions":[{{"lastTransitionTime":"{NOW}","message":"no room","reason":"Unschedulable",'
            '"status":"False","type":"PodScheduled"}]',
            id="another status",
        ),
        pytest.param(
            (FAILED,),
            "",
            condition("", reason=""),
            None,
            f'{ORDER},"conditions":[{{"message":null,"reason":null,"type":"PodScheduled"}}]',
            id="removed fields",
        ),
        pytest.param(
            (convert({"type": "PodScheduled", "status": "False", "lastProbeTime": THEN}, PodCondition),),
            "",
            condition("", reason="", seen=0),
            None,
            f'{ORDER},"conditions":[{{"lastProbeTime":null,"type":"PodScheduled"}}]',
            id="a probe time goes",
        ),
        pytest.param((FAILED,), "", condition(), None, None, id="unchanged"),
        pytest.param((FAILED,), "n1", condition(seen=2), None, None, id="only a new probe time"),
        pytest.param((FAILED,), "n1", condition(), "n1", None, id="nominated as before"),
        pytest.param((FAILED,), "n1", condition(), "", '"nominatedNodeName":null', id="cleared"),
        pytest.param((FAILED,), "n1", condition(), "n2", '"nominatedNodeName":"n2"', id="renominated"),
        pytest.param(
            (FAILED,),
            "n1",
            condition(seen=2),
            "",
            f'{ORDER},"conditions":[{{"observedGeneration":2,"type":"PodScheduled"}}],"nominatedNodeName":null',
            id="new probe time and another change",
        ),
        pytest.param((FAILED,), "n1", None, "", '"nominatedNodeName":null', id="nomination alone"),
        pytest.param((FAILED,), "n1", None, None, None, id="nothing at all"),
    ],
)
def test_the_patch(old, nominated, new, node, body):
    status = PodStatus(conditions=old, nominated_node_name=nominated)
    patch = status_patch(status, conditions=() if new is None else (new,), nominated_node_name=node)
    assert patch == (None if body is None else {"status": json.loads(f"{{{body}}}")})
    if body is not None:
        assert json.dumps(patch, separators=(",", ":")) == f'{{"status":{{{body}}}}}'


def test_two_conditions_in_one_patch():
    disrupted = condition("preempted", type_="DisruptionTarget", status="True", reason="PreemptionByScheduler")
    patch = status_patch(PodStatus(conditions=(FAILED,)), conditions=(condition("new"), disrupted))
    assert [one["type"] for one in patch["status"]["conditions"]] == ["PodScheduled", "DisruptionTarget"]
    assert patch["status"]["$setElementOrder/conditions"] == [{"type": "PodScheduled"}, {"type": "DisruptionTarget"}]


conditions = st.builds(
    condition,
    st.sampled_from(("", "a", "b")),
    type_=st.sampled_from(("PodScheduled", "Ready", "DisruptionTarget")),
    status=st.sampled_from(("True", "False")),
    reason=st.sampled_from(("", "R", "S")),
    since=st.sampled_from((THEN, NOW)),
    seen=st.integers(1, 2),
)


@given(
    st.lists(conditions, max_size=3, unique_by=lambda one: one.type),
    st.sampled_from(("", "n1")),
    conditions,
    st.sampled_from((None, "", "n1", "n2")),
)
def test_the_patch_applied_gives_the_wanted_status(old, nominated, new, node):
    cluster = Api()
    cluster.create("pods", pod_dict())
    before = PodStatus(conditions=tuple(old), nominated_node_name=nominated)
    first = status_patch(PodStatus(), conditions=old, nominated_node_name=nominated)
    if first is not None:
        cluster.patch("pods", "default", "p", first, kind="strategic", subresource="status")
    patch = status_patch(before, conditions=(new,), nominated_node_name=node)
    if patch is not None:
        cluster.patch("pods", "default", "p", patch, kind="strategic", subresource="status")
    found = convert(cluster.get("pods", "default", "p"), Pod).status
    assert found.nominated_node_name == (nominated if node is None else node)
    by_type = {one.type: one for one in found.conditions}
    assert list(by_type) == list(dict.fromkeys([*(one.type for one in old), new.type]))
    earlier = next((one for one in old if one.type == new.type), None)
    written = by_type[new.type]
    assert (written.status, written.reason, written.message) == (new.status, new.reason, new.message)
    kept = earlier is not None and earlier.status == new.status
    assert written.last_transition_time == (earlier if kept else new).last_transition_time
    if patch is not None:
        assert written.observed_generation == new.observed_generation
        assert status_patch(found, conditions=(new,), nominated_node_name=node) is None
