"""The status that a live cluster's scheduler reported for a pod, compared with the current verdict."""

import pytest

import stowplan
from stowplan.ask.explain.text.reported_status import ReportedStatus
from stowplan.ask.explain.text.tables import plain
from stowplan.ask.explain.text.verdict_text import explanation
from stowplan.kube.api.types import Event, EventSeries, ObjectMeta
from stowplan.scheduler.inspection.records import SchedulerRecord, document
from stowplan.testing import a_node, a_pod

NODE = a_node("n").allocatable(cpu="4", memory="8Gi", pods="5").obj()


def shown_status(pod, events=None, *, wide=False):
    cluster = stowplan.Cluster([NODE, pod.obj()])
    verdict = cluster.explain("p")
    text = plain(ReportedStatus.about(cluster.pod("p").pod, events).blocks(verdict, wide=wide))
    assert text.startswith("\nWhat the scheduler said\n  ")
    # For a pod that has no node and would fit one; it has its own test.
    return [line for line in text.splitlines()[2:] if "--from-scheduler" not in line]


def test_no_condition_yet():
    assert shown_status(a_pod("p")) == ["  nothing yet: the pod has no PodScheduled condition"]


@pytest.mark.parametrize(
    ("pod", "told"),
    [
        pytest.param(a_pod("p"), True, id="it fits and waits"),
        pytest.param(a_pod("p").requests(cpu="64"), False, id="it fits nowhere"),
        pytest.param(a_pod("p").on("n"), False, id="it has a node"),
    ],
)
def test_the_scheduler_is_named_if_only_it_knows(pod, told):
    cluster = stowplan.Cluster([NODE, pod.obj()])
    text = plain(ReportedStatus.about(cluster.pod("p").pod).blocks(cluster.explain("p"), wide=False))
    assert ("stowplan explain --from-scheduler URL pod NAME" in text) == told


def test_the_answer_of_the_scheduler_itself_is_final():
    cluster = stowplan.Cluster([NODE, a_pod("p").obj()])
    known = SchedulerRecord(place="waits on Permit for", node="n", attempts=1)
    reported = ReportedStatus.about(cluster.pod("p").pod, known=known)
    text = plain(explanation(cluster.engine, cluster.explain("p"), reported=reported))
    assert text.startswith("default/p waits on Permit for n and would go there again: 1 of 1 node would take it\n")
    assert "What this scheduler knows of it\n  waits on Permit for n (1 attempt)\n" in text
    assert "--from-scheduler URL" not in text
    assert document(reported.record())["place"] == "waits on Permit for"


def test_a_placed_pod_without_the_condition():
    assert shown_status(a_pod("p").on("n"))[0] == "  nothing: the pod has no PodScheduled condition"


@pytest.mark.parametrize(
    ("pod", "text"),
    [
        pytest.param(
            a_pod("p").on("n").condition("PodScheduled"),
            "PodScheduled=True",
            id="placed",
        ),
        pytest.param(
            a_pod("p").requests(cpu="9").condition("PodScheduled", "False", reason="Unschedulable", message="no"),
            "PodScheduled=False (Unschedulable): no",
            id="another message than ours",
        ),
        pytest.param(
            a_pod("p").gated("g").condition("PodScheduled", "False", message="waiting for scheduling gates: [g]"),
            "PodScheduled=False: the same",
            id="our message about a gate",
        ),
        pytest.param(
            a_pod("p").condition("PodScheduled", "False", reason="SchedulerError", message="oops"),
            "PodScheduled=False (SchedulerError): oops; as things are now, n would take it",
            id="out of date",
        ),
    ],
)
def test_the_condition(pod, text):
    assert shown_status(pod)[0] == f"  {text}"


def an_event(number, **fields):
    return Event(metadata=ObjectMeta(name=f"e{number}"), reason="FailedScheduling", note=f"note {number}", **fields)


def test_latest_events_come_first():
    events = [an_event(i, event_time=f"2026-01-02T12:00:0{i}Z") for i in range(6)]
    short = shown_status(a_pod("p"), events)
    assert [line.rpartition(" ")[2] for line in short[1:5]] == ["5", "4", "3", "2"]
    assert short[5:] == ["  … and 2 older Events (-o wide)"]
    assert [line.rpartition(" ")[2] for line in shown_status(a_pod("p"), events, wide=True)[1:]] == list("543210")


def test_the_time_of_an_event_is_its_last_occurrence():
    series = an_event(
        1, event_time="2026-01-02T12:00:01Z", series=EventSeries(count=4, last_observed_time="2026-01-03Z")
    )
    core = Event(metadata=ObjectMeta(name="e", creation_timestamp="2026-01-01Z"), reason="Pulled")
    reported = ReportedStatus.about(stowplan.Cluster([a_pod("p").obj()]).pod("p").pod, [core, series])
    assert [(event["time"], event["count"]) for event in document(reported.record())["events"]] == [
        ("2026-01-03Z", 4),
        ("2026-01-01Z", 1),
    ]


def test_without_events_there_is_no_section():
    assert len(shown_status(a_pod("p"), None)) == 1
    assert shown_status(a_pod("p"), [])[1] == "  no Events (an API server forgets them after an hour)"
