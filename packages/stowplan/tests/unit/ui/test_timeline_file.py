"""A timeline in a file reads back as written, even if the writer was killed."""

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.kube.api.decode import decode_object
from stowplan.kube.timing.waits import WaitingPods
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.testing import a_node, a_pod
from stowplan.ui import timeline_file
from stowplan.ui.plan import NodeRow, Plan, PlanChange, PodRow, plan_of
from stowplan.ui.plan_messages import change_of, delta
from stowplan.ui.source_records import ConfigurationRecord
from stowplan.ui.timeline import MAX_FRAMES, Run, timeline_of
from stowplan.ui.timeline_file import TimelineFileError, TimelineHeader, TimelineWriter, read_timeline

HEADER = TimelineHeader(title="week", scheduler_name="mine", configuration=ConfigurationRecord(profiles=()))
TEXT = st.text("ab/\u2028<", max_size=3)
PAIRS = st.dictionaries(TEXT, TEXT, max_size=2).map(lambda found: tuple(sorted(found.items())))
AMOUNTS = st.dictionaries(TEXT, st.integers(0, 9), max_size=2).map(lambda found: tuple(sorted(found.items())))
NODES = st.builds(
    NodeRow, TEXT, PAIRS, st.lists(st.tuples(TEXT, TEXT, TEXT), max_size=2).map(tuple), st.booleans(), AMOUNTS
)
PODS = st.builds(PodRow, TEXT, st.just(""), TEXT, TEXT, TEXT, PAIRS, AMOUNTS, st.integers(-5, 5), TEXT, st.booleans())


@given(st.lists(NODES, max_size=4), st.lists(PODS, max_size=4), st.lists(TEXT, max_size=2), st.lists(TEXT, max_size=2))
def test_changes_round_trip(nodes, pods, gone_nodes, gone_pods):
    change = PlanChange(
        {row.name: row for row in nodes}, {row.key: row for row in pods}, tuple(gone_nodes), tuple(gone_pods)
    )
    assert change_of(delta(change, version=3)) == change


def without_uids(plan):
    """In the written form."""
    return Plan(plan.nodes, {key: row._replace(uid="") for key, row in plan.pods.items()})


def written(path, moments, duration=None, until=None):
    """A node at first, then one more pod at each moment; returns the state."""
    state, waiting = ClusterState(), WaitingPods()
    state.add_node(decode_object(a_node("a").obj()))
    writer = TimelineWriter(path, HEADER, duration=duration)
    writer.begin(state, waiting)
    for i, now in enumerate(moments):
        state.add_pod(decode_object(a_pod(f"p{i}").on("a").obj()))
        waiting.arrived(f"p{i}", now - i)
        waiting.placed(f"p{i}", now)
        writer.moment(now)
    if until is not None:
        writer.end(until)
    writer.close()
    return state


def test_a_file_round_trips(tmp_path):
    state = written(tmp_path / "timeline", [10.0, 10.5, 11.0, 12.0], until=12.0)
    header, timeline = read_timeline(tmp_path / "timeline")
    assert header == HEADER
    # A second apart, as the total duration is unknown.
    assert [frame.time for frame in timeline.frames] == [10, 11, 12]
    assert [frame.figures["pods"] for frame in timeline.frames] == [1, 3, 4]
    assert timeline.frames[-1].figures["wait95"] == pytest.approx(3, rel=0.01)
    assert timeline.end() == without_uids(plan_of(state))


def test_events_are_marked_and_the_caller_has_figures(tmp_path):
    state = ClusterState()
    state.add_node(decode_object(a_node("a").obj()))
    writer = TimelineWriter(tmp_path / "timeline", HEADER, duration=None)
    writer.begin(state, WaitingPods(), lambda: {"cost": 2.5})
    writer.moment(10.0)
    writer.end(20.0, [(12.0, "outage: zone a")])
    writer.close()
    record = read_timeline(tmp_path / "timeline")[1].time_record("t")
    assert [(mark.what, mark.detail, mark.time[17:19]) for mark in record.marks] == [("event", "outage: zone a", "12")]
    columns = {column.name: (column.unit, column.values) for column in record.series.columns}
    assert columns["cost"] == ("", (2.5, 2.5))
    written(tmp_path / "without", [1.0])
    free = read_timeline(tmp_path / "without")[1].time_record("t")
    assert "cost" not in {column.name for column in free.series.columns}


def test_the_same_timeline_is_the_same_file(tmp_path):
    for name in ("one", "other"):
        written(tmp_path / name, [1.0, 2.0], until=3.0)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()


@pytest.mark.slow
def test_moments_of_a_known_duration(tmp_path):
    written(tmp_path / "timeline", [i / 10 for i in range(5 * MAX_FRAMES)], duration=MAX_FRAMES / 2)
    assert len(read_timeline(tmp_path / "timeline")[1].frames) == pytest.approx(MAX_FRAMES, abs=2)


def test_the_size_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(timeline_file, "MAX_ROWS", 3)
    written(tmp_path / "timeline", [1.0, 2.0, 3.0, 4.0], until=5.0)
    _, timeline = read_timeline(tmp_path / "timeline")
    assert [frame.time for frame in timeline.frames] == [1, 2]
    assert "known up to here" in timeline.note
    assert timeline.time_record("t").note == timeline.note


def test_a_file_of_a_killed_writer(tmp_path):
    state = written(tmp_path / "timeline", [float(i) for i in range(50)])
    data = (tmp_path / "timeline").read_bytes()
    (tmp_path / "timeline").write_bytes(data[:-20])
    _, timeline = read_timeline(tmp_path / "timeline")
    assert 0 < len(timeline.frames) <= 50
    assert set(timeline.end().pods) <= set(plan_of(state).pods)


NEWER = b'{"kind":"Timeline","format":9,"title":"","configuration":{"profiles":[]}}\n'


@pytest.mark.parametrize(
    ("content", "said"),
    [
        pytest.param(b"", "this is not the timeline of a simulation", id="empty"),
        pytest.param(b"{}", "this is not the timeline of a simulation", id="not compressed"),
        pytest.param(gzip.compress(b"{}\n"), "missing required field", id="no header"),
        pytest.param(
            gzip.compress(b'{"kind":"Timeline","format":9,"title":"","configuration":{"profiles":[]}}\n'),
            "format 2, got Timeline of format 9",
            id="another format",
        ),
    ],
)
def test_invalid_files(tmp_path, content, said):
    (tmp_path / "timeline").write_bytes(content)
    with pytest.raises(TimelineFileError, match=said):
        read_timeline(tmp_path / "timeline")


def test_a_missing_file(tmp_path):
    with pytest.raises(TimelineFileError, match=r"nothing: No such file"):
        read_timeline(tmp_path / "nothing")


def test_timelines_of_files_and_states_agree(tmp_path):
    state = written(tmp_path / "timeline", [1.0], until=1.0)
    _, read = read_timeline(tmp_path / "timeline")
    seen = timeline_of([Run(state, [1.0])], WaitingPods())
    assert read.end() == without_uids(seen.end())
