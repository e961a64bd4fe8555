"""When pods count as settled, and what is printed about those that do not."""

import asyncio

import pytest

from stowplan.ask.explain.text.tables import plain
from stowplan.kube.api.decode import decode_object
from stowplan.kube.api.port import Change
from stowplan_cluster.commands.pod_changes import PodWatcher
from support.api import manifests


def a_pod(name, *, node="", why="", app="web", leaving=False):
    manifest = manifests.pod(name, **({"nodeName": node} if node else {}))
    manifest["metadata"] |= {"namespace": "default", "uid": f"uid-{name}", "labels": {"app": app}}
    if leaving:
        manifest["metadata"]["deletionTimestamp"] = "2027-01-01T00:00:00Z"
    if why:
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": why}
        manifest["status"] = {"conditions": [condition]}
    return decode_object(manifest)


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def watched():
    lines = []
    watcher = PodWatcher(clock=Clock(), write=lambda line: lines.append(plain([line])))
    watcher.lines = lines
    return watcher


def new(*pods):
    return [Change(None, pod) for pod in pods]


@pytest.mark.parametrize(
    ("pods", "total", "open_"),
    [
        pytest.param([], 0, [], id="nothing to wait for"),
        pytest.param([], 1, ["there are 0 pods, expected 1"], id="not created yet"),
        pytest.param([a_pod("a", node="n1")], 1, [], id="placed"),
        pytest.param([a_pod("a")], 1, ["default/a has no node: not tried yet"], id="untried"),
        pytest.param([a_pod("a", why="no room")], 1, ["default/a has no node: no room"], id="refused"),
        pytest.param([a_pod("a", why="no room", app="spare")], 1, [], id="refused, as expected"),
        pytest.param(
            [a_pod("a", app="spare")], 1, ["default/a has no node: not tried yet"], id="may be refused, untried"
        ),
        pytest.param(
            [a_pod("a", node="n1", leaving=True)],
            0,
            ["1 pod still to end"],
            id="terminating",
        ),
    ],
)
def test_unsettled_pods(watched, pods, total, open_):
    watched.deliver(new(*pods))
    assert watched.open(total, may_wait=("spare",)) == open_


async def test_settles_as_soon_as_the_last_pod_has_a_node(watched):
    watched.deliver(new(a_pod("a", node="n1"), a_pod("b")))
    waiting = asyncio.create_task(watched.settled(2))
    await asyncio.sleep(0)
    watched.deliver([Change(a_pod("a", node="n1"), None)])
    await asyncio.sleep(0)
    watched.deliver([Change(a_pod("b"), a_pod("b", node="n2")), *new(a_pod("c", why="no room"))])
    await asyncio.sleep(0)
    assert not waiting.done()
    watched.deliver([Change(a_pod("c", why="no room"), a_pod("c", node="n2"))])
    await asyncio.wait_for(waiting, 1)


def test_changes_are_printed_with_the_elapsed_time(watched):
    watched.begin()
    watched._clock.now += 0.25
    watched.deliver(new(a_pod("a", node="n1"), a_pod("b")))
    watched._clock.now += 1
    watched.deliver([Change(a_pod("b"), a_pod("b", why="no room"))])
    assert watched.lines == ["    0.25 s  default/a → n1\n", "    1.25 s  default/b waits: no room\n"]
    assert watched.seconds == 1.25
