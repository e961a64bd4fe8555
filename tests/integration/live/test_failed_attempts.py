"""What a failed attempt leaves behind: the pod's queue, its condition, an Event, its nomination.

The other failures of each point: test_failure_handler and test_call_order of the engine.
"""

import numpy as np
import pytest

from stowplan.scheduler.framework.diagnosis import Rejections
from stowplan.scheduler.framework.status import Code, Reason, unschedulable
from support.api.manifests import node
from support.api.tampered_api import Tampered
from support.live.http_scheduler import scheduled
from support.plugins.answering_plugins import answering, configuration, profile
from support.scheduling.failed_attempts import check, failed, nominated, rejected

OOPS = RuntimeError("oops")


def refuse_all(state, pod, nodes):
    return Rejections.where(np.ones(len(nodes), bool), Reason("No", "no"), Code.Unschedulable)


NO = unschedulable("no")
ONE = "0/1 nodes are available: 1 no."
CASES = [
    ("filter", {"filter": refuse_all}, rejected("0/2 nodes are available: 2 no.", "A")),
    ("reserve", {"reserve": NO}, rejected(ONE, "A")),
    ("permit", {"permit": (NO, 0.0)}, rejected(ONE, "A")),
    ("preBind", {"pre_bind": OOPS}, failed('running PreBind plugin "A": oops', announced=True)),
    ("bind", {"bind": OOPS}, failed('running Bind plugin "A": oops')),
]


@pytest.mark.parametrize(("point", "answers", "expected"), CASES, ids=[point for point, *_ in CASES])
async def test_failure_at_each_point(api_server, namespace, point, answers, expected):
    a = answering("A", **answers)
    without = {"postFilter": ["*"], "preScore": ["*"], "score": ["*"], "bind": ["DefaultBinder"] * (point == "bind")}
    made = {"config": configuration(profile(without=without, **{point: [a]})), "plugins": [a]}
    before = [("nodes", node("n1")), ("nodes", node("n2")), ("pods", nominated())]
    async with scheduled(api_server, namespace, before=before, wrap=Tampered, **made) as c:
        await check(c, "web", c.objects.made("pods", "web"), expected)
        assert not c.scheduler.state.placed_pods()
        assert not c.scheduler.queue.in_flight()


async def test_no_nodes(api_server, namespace):
    async with scheduled(api_server, namespace, before=[("pods", nominated())], wrap=Tampered) as c:
        expected = failed("no nodes available to schedule pods", "Unschedulable")
        await check(c, "web", c.objects.made("pods", "web"), expected)
        # No plugin refused the pod, so no event wakes it: it backs off.
        await c.nodes(node("n1"))
        assert c.place("web") == "ERROR_BACKOFF"
        await c.advance(2.0)
        assert await c.node_of("web") == "n1"
