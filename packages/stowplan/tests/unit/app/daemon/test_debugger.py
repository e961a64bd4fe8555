"""SIGUSR2: differences between the API and the scheduler, and a dump of the scheduler without secrets."""

import asyncio
import os
import re
import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.app.daemon import debugger as module
from stowplan.app.daemon.debugger import CacheDebugger, Mismatch, on_signal
from stowplan.kube.api.decode import decode_object
from stowplan.kube.api.types import Node, Pod
from stowplan.kube.klog.logger import configure
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.testing import a_node, a_pod
from support.live.live_scheduler import live

CANARY = "canary-9f4c"


class Lines:
    def __init__(self):
        self.lines = []

    def write(self, entry):
        if entry.module == module.__name__:
            self.lines.append((entry.severity, entry.level, entry.message, entry.keys))

    def keys(self, message):
        return [keys for _, _, said, keys in self.lines if said == message]


@pytest.fixture
def log():
    found = Lines()
    configure(sink=found, verbosity=3)
    yield found
    configure()


def of(cluster, **more):
    scheduler = cluster.scheduler
    return CacheDebugger(informers=scheduler.informers, state=scheduler.state, queue=scheduler.queue, **more)


async def test_an_up_to_date_scheduler_has_no_differences(log):
    async with live(a_node("n1").obj(), a_node("n2").obj()) as cluster:
        await cluster.create(a_pod("placed").obj(), a_pod("pending").requests(cpu="1000").obj())
        assert await of(cluster).compare() == (Mismatch([], []), Mismatch([], []))
    assert [line[:3] for line in log.lines] == [("I", 3, "Cache comparer started"), ("I", 3, "Cache comparer finished")]


async def test_other_schedulers_pods_and_stale_pods_are_reported(log):
    async with live(a_node("n1").obj()) as cluster:
        await cluster.create(
            a_pod("others").scheduler("somebody-else").uid("u-others").obj(), a_pod("bound").on("lost").uid("u").obj()
        )
        nodes, pods = await of(cluster).compare()
        assert nodes == ([], ["lost"])
        others = cluster.pod("others")["metadata"]["uid"]
        assert pods == ([others], [])
    assert log.keys("Cache mismatch") == [
        {"missedNodes": [], "redundantNodes": ["lost"]},
        {"missedPods": [others], "redundantPods": []},
    ]


class Heard:
    def __init__(self, nodes, pods):
        self.objects = {Node: nodes, Pod: pods}
        self.undelivered = False

    def known(self, kind):
        return self.objects[kind]


class Queue:
    def __init__(self, pods=()):
        self._pods = pods

    def pending(self):
        return iter(self._pods)

    def summary(self):
        return f"activeQ:{len(self._pods)}; backoffQ:0; unschedulablePods:0"


names = st.sets(st.sampled_from([f"n{i}" for i in range(8)]))


@given(names, names, names, names)
def test_both_sides_are_compared(nodes, known_nodes, uids, placed):
    state = ClusterState()
    for name in known_nodes:
        state.add_node(decode_object(a_node(name).obj()))
    for uid in placed:
        state.add_pod(decode_object(a_pod(uid).uid(uid).on("n0").obj()))
    heard = Heard(
        [decode_object(a_node(name).obj()) for name in nodes],
        [decode_object(a_pod(uid).uid(uid).on("n0").obj()) for uid in uids],
    )
    found = asyncio.run(CacheDebugger(informers=heard, state=state, queue=Queue()).compare())
    cached = known_nodes | ({"n0"} if placed else set())
    assert found == (
        (sorted(nodes - cached), sorted(cached - nodes)),
        (sorted(uids - placed), sorted(placed - uids)),
    )


async def test_the_comparison_waits_for_pending_events(log):
    state = ClusterState()
    heard = Heard([decode_object(a_node("new").obj())], [])
    heard.undelivered = True
    turns = []

    async def pause():
        turns.append(1)
        if len(turns) == 3:
            state.add_node(decode_object(a_node("new").obj()))
            heard.undelivered = False

    assert await CacheDebugger(informers=heard, state=state, queue=Queue(), pause=pause).compare() == (
        ([], []),
        ([], []),
    )


NODE = """\
Node name: n1
Deleted: false
Requested Resources: &{MilliCPU:1500 Memory:1024 EphemeralStorage:0 AllowedPodNumber:0 ScalarResources:map[a.b/gpu:1]}
Allocatable Resources:&{MilliCPU:4000 Memory:4096 EphemeralStorage:0 AllowedPodNumber:10 ScalarResources:map[a.b/gpu:2]}
Scheduled Pods(number: 1):
name: one, namespace: default, uid: UID, phase: Pending, nominated node: """


async def test_the_contents_of_a_dump(log):
    node = a_node("n1").allocatable({"cpu": "4", "memory": "4Ki", "pods": "10", "a.b/gpu": "2"})
    async with live(node.obj(), a_node("n0").allocatable(cpu="1").obj()) as cluster:
        one = (
            a_pod("one").uid("u1").requests({"cpu": "1500m", "memory": "1Ki", "a.b/gpu": "1"}).limits({"a.b/gpu": "1"})
        )
        await cluster.create(one.obj(), a_pod("late").uid("u2").requests(cpu="100").obj())
        await cluster.create(a_pod("ghost").uid("u3").on("lost").requests(cpu="2").obj())
        await of(cluster).dump()
        one, late = (cluster.pod(name)["metadata"]["uid"] for name in ("one", "late"))
    (dumped,) = log.keys("Dump of cached NodeInfo")
    # Each entry ends with a newline, and an empty line separates two.
    blocks = dumped["nodes"].split("\n\n\n")
    assert [re.match("Node name: (.*)", block)[1] for block in blocks] == ["n0", "n1", "lost"]
    assert blocks[1] == NODE.replace("UID", one)
    assert "Deleted: true\nRequested Resources: &{MilliCPU:2000 " in blocks[2]
    (queued,) = log.keys("Dump of scheduling queue")
    assert queued == {
        "summary": "activeQ:0; backoffQ:0; unschedulableEntities:1",
        "pods": f"name: late, namespace: default, uid: {late}, phase: Pending, nominated node: \n",
    }


async def test_nominations_are_dumped(log):
    state = ClusterState()
    state.add_node(decode_object(a_node("n1").obj()))
    state.nominator.add(state.pod_info(decode_object(a_pod("high").obj())), "n1")
    await CacheDebugger(informers=Heard([], []), state=state, queue=Queue()).dump()
    assert re.search(r"Nominated Pods\(number: 1\):\nname: high, ", log.keys("Dump of cached NodeInfo")[0]["nodes"])


async def test_dumped_pods_have_names_without_specs(log):
    pod = a_pod("odd").labels(secret=CANARY).obj()
    pod["metadata"]["annotations"] = {"token": CANARY}
    pod["spec"]["containers"][0]["env"] = [{"name": "PASSWORD", "value": CANARY}]
    pod["spec"]["containers"][0]["command"] = ["sh", "-c", CANARY]
    node = a_node("n1").obj()
    node["metadata"]["annotations"] = {"token": CANARY}
    async with live(node) as cluster:
        await cluster.create(pod)
        await of(cluster).compare()
        await of(cluster).dump()
    assert log.lines
    assert CANARY not in repr(log.lines)


async def test_a_large_dump_is_several_entries_and_pauses(log, monkeypatch):
    monkeypatch.setattr(module, "_MAX_ENTRY_LENGTH", 2000)
    monkeypatch.setattr(module, "_PODS_BETWEEN_PAUSES", 10)
    state = ClusterState()
    for i in range(30):
        state.add_node(decode_object(a_node(f"n{i:02}").obj()))
        state.add_pod(decode_object(a_pod(f"p{i}").uid(f"u{i}").on(f"n{i:02}").obj()))
    pauses = []

    async def pause():
        pauses.append(1)

    await CacheDebugger(informers=Heard([], []), state=state, queue=Queue(), pause=pause).dump()
    entries = [keys["nodes"] for keys in log.keys("Dump of cached NodeInfo")]
    assert len(entries) > 3
    assert max(map(len, entries)) < 2400
    assert re.findall("Node name: (.*)", "\n\n".join(entries)) == [f"n{i:02}" for i in range(30)]
    assert len(pauses) > 5


async def test_the_signal_compares_and_dumps(log):
    async with live(a_node("n1").obj()) as cluster:
        debugger = of(cluster)
        running = asyncio.create_task(debugger.run())
        before = signal.getsignal(signal.SIGUSR2)
        with on_signal(debugger):
            os.kill(os.getpid(), signal.SIGUSR2)
            for _ in range(200):
                await asyncio.sleep(0)
                if log.keys("Dump of scheduling queue"):
                    break
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert [message for _, _, message, _ in log.lines] == [
        "Cache comparer started",
        "Cache comparer finished",
        "Dump of cached NodeInfo",
        "Dump of scheduling queue",
    ]
    assert signal.getsignal(signal.SIGUSR2) is before
