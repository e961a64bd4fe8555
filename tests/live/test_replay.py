"""A recorded run, played again: the same effects, byte for byte."""

import msgspec

from stowplan.testing import a_node, a_pod
from support.live.live_scheduler import live
from support.live.recorded import Recorded
from support.scheduling.preempting import priority_class


async def busy_cluster(recorded, **options):
    """Pods that fit, pods that wait for room, a preemption, a node that comes, pods that are deleted."""
    async with live(a_node("n1").allocatable(cpu=2, pods=110).obj(), recorder=recorded.recorder, **options) as cluster:
        await cluster.create(priority_class("urgent", 100))
        await cluster.create(*(a_pod(f"p{i}").requests(cpu="500m").obj() for i in range(6)))
        await cluster.create(a_pod("urgent").priority(100, class_name="urgent").requests(cpu="1500m").obj())
        await cluster.advance(3.0)
        await cluster.create(a_node("n2").allocatable(cpu=2, pods=110).obj())
        await cluster.advance(10.0)
        await cluster.delete("pods", "urgent")
        await cluster.advance(30.0)


async def test_a_run_is_repeated():
    recorded = Recorded()
    await busy_cluster(recorded)
    assert len(recorded.effects) > 50
    assert recorded.replayed() == recorded.effects
    assert b'"type":"Delete"' in b"".join(b"".join(step) for step in recorded.effects), "somebody was evicted"


async def test_another_answer_makes_a_difference():
    recorded = Recorded()
    await busy_cluster(recorded)
    lines = list(recorded.lines)
    which = next(i for i, line in enumerate(lines) if b'"Answer"' in line)
    now, name, (number, *_) = msgspec.json.decode(lines[which])
    lines[which] = msgspec.json.encode([now, name, [number, "Refused", ["Conflict", "no", 409]]])
    assert recorded.replayed(lines=lines) != recorded.effects
