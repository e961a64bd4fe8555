"""What a failed attempt leaves behind: the pod's queue, its condition, an Event, its nomination.

Each case is one row of the failure matrix, with a pod that has a nomination at the start.
"""

import numpy as np
import pytest

from stowplan.scheduler.framework.interface import PostFilterResult, PreFilterResult
from stowplan.scheduler.framework.rejections import Rejections
from stowplan.scheduler.framework.status import Code, Reason, Status, error, unresolvable, unschedulable
from support.api.manifests import node
from support.api.tampered_api import Tampered
from support.live.http_scheduler import scheduled
from support.plugins.answering_plugins import answering, configuration, profile
from support.scheduling.failed_attempts import check, failed, nominated, rejected

OOPS = RuntimeError("oops")


def refusing_all(code=Code.Unschedulable, text="no"):
    return lambda state, pod, nodes: Rejections.where(np.ones(len(nodes), bool), Reason("No", text), code)


def at(point, expected, /, *more, name=None, **answers):
    """A case: plugin A at `point`, and possibly at more points, with these answers."""
    (method, answer), *_ = answers.items()
    title = name or f"{method}-{getattr(getattr(answer, 'code', None), 'name', 'raises').lower()}"
    return pytest.param((point, *more), answers, expected, id=title)


ONE = "0/1 nodes are available: 1 no."
SEEN = "0/2 nodes are available: no."

CASES = [
    at("preFilter", rejected(SEEN, "A"), pre_filter=unschedulable("no")),
    at(
        "preFilter",
        rejected("0/2 nodes are available: node(s) didn't satisfy plugin A.", "A"),
        pre_filter=PreFilterResult(frozenset()),
        name="pre_filter-no_nodes",
    ),
    at("filter", rejected("0/2 nodes are available: 2 no.", "A"), filter=refusing_all(), name="filter-unschedulable"),
    at(
        "filter",
        rejected("0/2 nodes are available: 2 no.", "A", pending=["A"]),
        filter=refusing_all(Code.Pending),
        name="filter-pending",
    ),
    at("filter", failed('running "A" filter plugin: oops'), filter=OOPS),
    at("score", failed('running Score plugins: plugin "A" failed with: oops'), score=OOPS),
    at("reserve", rejected(ONE, "A"), reserve=unschedulable("no")),
    at("permit", rejected(ONE, "A"), permit=(unschedulable("no"), 0.0), name="permit-unschedulable"),
    at("preBind", failed('running PreBindPreFlight "A": oops'), pre_bind_pre_flight=OOPS),
    at("preBind", failed("no", "Unschedulable", announced=True), pre_bind=unschedulable("no")),
    at("preBind", failed('running PreBind plugin "A": oops', announced=True), pre_bind=OOPS),
    at("bind", failed("no", "Unschedulable"), bind=unschedulable("no")),
    at("bind", failed('running Bind plugin "A": oops'), bind=OOPS),
]


def setting(points, answers, *, without=None):
    a = answering("A", **answers)
    disabled = {"postFilter": ["*"], "preScore": ["*"], "score": ["*"], "bind": ["DefaultBinder"] * ("bind" in points)}
    disabled |= without or {}
    return {"config": configuration(profile(without=disabled, **{p: [a] for p in points})), "plugins": [a]}


@pytest.mark.parametrize(("points", "answers", "expected"), CASES)
async def test_failure_at_each_point(api_server, namespace, points, answers, expected):
    before = [("nodes", node("n1")), ("nodes", node("n2")), ("pods", nominated())]
    async with scheduled(api_server, namespace, before=before, wrap=Tampered, **setting(points, answers)) as c:
        await check(c, "web", c.objects.made("pods", "web"), expected)
        assert not c.scheduler.state.placed_pods()
        assert not c.scheduler.queue.in_flight()


TWO_REFUSED = "0/2 nodes are available: 2 no."


@pytest.mark.parametrize(
    ("answer", "message", "left"),
    [
        pytest.param(PostFilterResult(Status(Code.Success), "n2"), TWO_REFUSED, "n2", id="success"),
        pytest.param(PostFilterResult(unschedulable("no help"), ""), f"{TWO_REFUSED} no help", "", id="clears"),
        pytest.param(PostFilterResult(unschedulable("no help")), f"{TWO_REFUSED} no help", "n9", id="leaves-alone"),
        pytest.param(unresolvable("no use"), f"{TWO_REFUSED} no use", "n9", id="unresolvable"),
        pytest.param(error("bad"), f"{TWO_REFUSED} bad", "n9", id="error"),
        pytest.param(OOPS, f'{TWO_REFUSED} running PostFilter plugin "A": oops', "n9", id="raises"),
    ],
)
async def test_nomination_after_post_filter(api_server, namespace, answer, message, left):
    before = [("nodes", node("n1")), ("nodes", node("n2")), ("pods", nominated())]
    made = setting(("postFilter", "filter"), {"post_filter": answer, "filter": refusing_all()})
    async with scheduled(api_server, namespace, before=before, wrap=Tampered, **made) as c:
        await check(c, "web", c.objects.made("pods", "web"), rejected(message, "A", nominated=left))


async def test_no_nodes(api_server, namespace):
    async with scheduled(api_server, namespace, before=[("pods", nominated())], wrap=Tampered) as c:
        expected = failed("no nodes available to schedule pods", "Unschedulable")
        await check(c, "web", c.objects.made("pods", "web"), expected)
        # No plugin refused the pod, so no event wakes it: it backs off.
        await c.nodes(node("n1"))
        assert c.place("web") == "ERROR_BACKOFF"
        await c.advance(2.0)
        assert await c.node_of("web") == "n1"
