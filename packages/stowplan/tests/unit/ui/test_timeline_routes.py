"""Moments of timelines: built on demand, shared by concurrent requests, and cached."""

import asyncio
import json

import pytest

from stowplan.app.sources.cluster_source import ClusterSource
from stowplan.ask.offline import Cluster
from stowplan.kube.api.api_errors import BadRequest, NotFound
from stowplan.kube.api.users import ANONYMOUS_USER
from stowplan.net.serving.requests.messages import Request
from stowplan.ui.timeline_routes import MAX_MOMENTS, MomentError, Moments
from support.what_if.objects import node, pod


def about(cpu):
    return ClusterSource(Cluster([node("a", cpu=cpu), pod("p", cpu="3")]), {})


class Built:
    """Builds clusters whose node has as many CPUs as seconds have passed, and records the requests."""

    def __init__(self):
        self.asked = []
        self.stopped = None

    def __call__(self, at, stopped):
        self.asked.append(at)
        self.stopped = stopped
        if at == 13:
            raise MomentError("nobody remembers")
        return about("8" if at is None else str(int(at)))


@pytest.fixture
def built():
    return Built()


@pytest.fixture
def moments(built):
    return Moments({"one": built, "other": lambda at, stopped: about("2")})


async def get(moments, path, body=b"", **query):
    asked = Request(
        method="POST" if body else "GET",
        path=f"/{path}",
        user=ANONYMOUS_USER,
        query={key: [one] for key, one in query.items()},
        body=body,
    )
    route = path if path in ("pending", "room", "what-if") else path[: path.index("/") + 1]
    return json.loads((await moments.pages("/")[f"/{route}"](asked)).body)


async def test_a_pod_at_a_moment_and_at_the_end(moments):
    assert "node" not in await get(moments, "explain/default/p", timeline="one", at="2")
    assert (await get(moments, "explain/default/p", timeline="one", at="4.0"))["node"] == "a"
    assert (await get(moments, "explain/default/p"))["node"] == "a"
    assert "node" not in await get(moments, "explain/default/p", timeline="other")


async def test_the_other_routes_and_the_workbench(moments):
    assert (await get(moments, "pending", at="2"))["counts"] == {"unschedulable": 1}
    assert (await get(moments, "room", at="2"))["nodes"] == 1
    assert (await get(moments, "nodes/a", at="2"))["node"] == "a"
    change = json.dumps({"change": {"addNodes": [{"count": 1, "like": "a"}]}}).encode()
    assert (await get(moments, "what-if", change))["after"]["nodes"] == 2


async def test_concurrent_requests_share_a_moment_and_the_latest_are_cached(moments, built):
    await asyncio.gather(*(get(moments, "pending", at="4") for _ in range(5)))
    assert built.asked == [4]
    for at in range(5, 5 + MAX_MOMENTS):
        await get(moments, "pending", at=str(at))
    await get(moments, "pending", at=str(4 + MAX_MOMENTS))
    assert built.asked == [4, *range(5, 5 + MAX_MOMENTS)]
    await get(moments, "pending", at="4")
    assert built.asked[-1] == 4


async def test_a_failed_build_is_reported_and_retried(moments, built):
    for _ in range(2):
        with pytest.raises(BadRequest, match="nobody remembers"):
            await get(moments, "pending", at="13")
    assert built.asked == [13, 13]


@pytest.mark.parametrize("at", ["soon", "nan", "inf"])
async def test_invalid_times(moments, at):
    with pytest.raises(BadRequest, match="want seconds since the epoch"):
        await get(moments, "pending", at=at)


async def test_unknown_tracks(moments):
    with pytest.raises(NotFound, match="timeline 'third' not found; there is 'one', 'other'"):
        await get(moments, "pending", timeline="third")


async def test_an_available_end_is_not_built(built):
    end = about("8")
    moments = Moments({"one": built}, end)
    assert moments.end() is end
    await get(moments, "pending")
    assert built.asked == []
    await get(moments, "pending", at="4")
    moments.close()
    assert built.stopped()
