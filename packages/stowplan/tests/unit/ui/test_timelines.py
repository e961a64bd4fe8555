"""Routes of timelines: each timeline is computed once, by name."""

import json

import pytest

from stowplan.kube.api.api_errors import BadRequest, NotFound
from stowplan.kube.api.decode import decode_object
from stowplan.kube.api.users import ANONYMOUS_USER
from stowplan.kube.timing.waits import WaitingPods
from stowplan.net.serving.requests.messages import Request
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.engine.input_log.recording import RecordingError
from stowplan.testing import a_node, a_pod
from stowplan.ui.timeline import Run, timeline_of
from stowplan.ui.timeline_routes import Timelines
from support.page.client import rows


def get(timelines, name, **query):
    asked = Request(
        method="GET", path=f"/{name}", user=ANONYMOUS_USER, query={key: [one] for key, one in query.items()}
    )
    return json.loads(timelines.pages("/")[f"/{name}"](asked).body)


def a_timeline(*nodes):
    state = ClusterState()

    def moments():
        for name in nodes:
            state.add_node(decode_object(a_node(name).obj()))
        yield 1.0
        state.add_pod(decode_object(a_pod("p").on(nodes[0]).obj()))
        yield 2.0

    return timeline_of([Run(state, moments())], WaitingPods())


def test_a_timeline_is_computed_once_for_two_routes():
    count = []
    timelines = Timelines({"recorded": lambda: count.append(1) or a_timeline("a")})
    time, frames = get(timelines, "time"), get(timelines, "frames")
    assert (time["from"], time["timeline"]) == ("1970-01-01T00:00:01.000Z", "recorded")
    assert list(rows(frames["start"], "nodes")) == ["a"]
    assert rows(frames["frames"][0], "pods")["default/p"]["node"] == "a"
    assert len(count) == 1


def test_tracks_have_names():
    timelines = Timelines({"one": lambda: a_timeline("a"), "other": lambda: a_timeline("b")})
    assert timelines.names == ("one", "other")
    assert list(rows(get(timelines, "frames", timeline="other")["start"], "nodes")) == ["b"]
    assert get(timelines, "time")["timeline"] == "one"
    with pytest.raises(NotFound, match="timeline 'third' not found; there is 'one', 'other'"):
        get(timelines, "time", timeline="third")
    assert [set(found) for found in timelines.records()] == [{"one", "other"}] * 2


def test_a_broken_recording():
    def broken():
        raise RecordingError("line 3: this is none")

    with pytest.raises(BadRequest, match="line 3: this is none"):
        get(Timelines({"recorded": broken}), "time")
