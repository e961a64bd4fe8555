"""What a failed attempt leaves behind: the pod's queue, its condition, an Event, its nomination.

Each case is one row of the failure matrix, with a pod that has a nomination at the start.
"""

import numpy as np
import pytest

from stowplan.kube.api.api_errors import Forbidden
from stowplan.scheduler.framework.events import NODE, Action, on
from stowplan.scheduler.framework.interface import PostFilterResult, PreFilterResult
from stowplan.scheduler.framework.rejections import Rejections
from stowplan.scheduler.framework.status import SKIP, Code, Reason, Status, error, unresolvable, unschedulable
from support.api.manifests import node, pod
from support.api.tampered_api import Tampered, raising
from support.live.http_scheduler import scheduled
from support.plugins.answering_plugins import answering, configuration, profile
from support.scheduling.failed_attempts import check, failed, nominated, nothing_in_flight, rejected

WAIT = Status(Code.Wait)
PENDING = Status(Code.Pending, ("later",))
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
    at("preFilter", rejected(SEEN, "A"), pre_filter=unresolvable("no")),
    at(
        "preFilter",
        rejected("0/2 nodes are available: node(s) didn't satisfy plugin A.", "A"),
        pre_filter=PreFilterResult(frozenset()),
        name="pre_filter-no_nodes",
    ),
    at("preFilter", failed('running PreFilter plugin "A": oops'), pre_filter=OOPS),
    at("preFilter", failed('running PreFilter plugin "A": bad'), pre_filter=error("bad")),
    at("preFilter", failed('running PreFilter plugin "A": later'), pre_filter=PENDING),
    at("filter", rejected("0/2 nodes are available: 2 no.", "A"), filter=refusing_all(), name="filter-unschedulable"),
    at(
        "filter",
        rejected("0/2 nodes are available: 2 no.", "A"),
        filter=refusing_all(Code.UnschedulableAndUnresolvable),
        name="filter-unresolvable",
    ),
    at(
        "filter",
        rejected("0/2 nodes are available: 2 no.", "A", pending=["A"]),
        filter=refusing_all(Code.Pending),
        name="filter-pending",
    ),
    at("filter", failed('running "A" filter plugin: oops'), filter=OOPS),
    at("filter", failed('running "A" filter plugin: bad'), filter=error("bad")),
    at("preScore", failed('running PreScore plugin "A": oops'), "score", pre_score=OOPS),
    at("preScore", failed('running PreScore plugin "A": no'), "score", pre_score=unschedulable("no")),
    at("score", failed('running Score plugins: plugin "A" failed with: oops'), score=OOPS),
    at("score", failed('running Score plugins: plugin "A" failed with: bad'), score=error("bad")),
    at("score", failed('running Normalize on Score plugins: plugin "A" failed with: oops'), normalize=OOPS),
    at(
        "score",
        failed(
            'applying score defaultWeights on Score plugins: plugin "A" returns an invalid score 101, '
            "it should in the range of [0, 100] after normalizing"
        ),
        normalize=lambda state, pod, scores: scores + 101,
        name="score-out_of_range",
    ),
    at("reserve", rejected(ONE, "A"), reserve=unschedulable("no")),
    at("reserve", rejected(ONE, "A"), reserve=unresolvable("no")),
    at("reserve", rejected(ONE, "A", pending=["A"]), reserve=Status(Code.Pending, ("no",))),
    at("reserve", failed('running Reserve plugin "A": oops'), reserve=OOPS),
    at("reserve", failed('running Reserve plugin "A": bad'), reserve=error("bad")),
    at("reserve", failed('running Reserve plugin "A": '), reserve=SKIP),
    at("permit", rejected(ONE, "A"), permit=(unschedulable("no"), 0.0), name="permit-unschedulable"),
    at("permit", rejected(ONE, "A"), permit=(unresolvable("no"), 0.0), name="permit-unresolvable"),
    at(
        "permit",
        rejected(ONE, "A", pending=["A"]),
        permit=(Status(Code.Pending, ("no",)), 0.0),
        name="permit-pending",
    ),
    at("permit", failed('running Permit plugin "A": oops'), permit=OOPS),
    at("permit", failed('running Permit plugin "A": bad'), permit=(error("bad"), 0.0), name="permit-error"),
    at("permit", failed('running Permit plugin "A": '), permit=(SKIP, 0.0), name="permit-skip"),
    at("preBind", failed('running PreBindPreFlight "A": oops'), pre_bind_pre_flight=OOPS),
    at("preBind", failed('running PreBindPreFlight "A": bad'), pre_bind_pre_flight=error("bad")),
    at(
        "preBind",
        failed(
            'PreBindPreFlight A returned "Unschedulable", which is unsupported. '
            "It is supposed to return Success, Skip, or Error status"
        ),
        pre_bind_pre_flight=unschedulable("no"),
    ),
    at("preBind", failed("no", "Unschedulable", announced=True), pre_bind=unschedulable("no")),
    at("preBind", failed("no", "Unschedulable", announced=True), pre_bind=unresolvable("no")),
    at("preBind", failed("later", "Unschedulable", announced=True), pre_bind=PENDING),
    at("preBind", failed('running PreBind plugin "A": oops', announced=True), pre_bind=OOPS),
    at("preBind", failed('running PreBind plugin "A": bad', announced=True), pre_bind=error("bad")),
    at("bind", failed("no", "Unschedulable"), bind=unschedulable("no")),
    at("bind", failed("no", "Unschedulable"), bind=unresolvable("no")),
    at("bind", failed("later", "Unschedulable"), bind=PENDING),
    at("bind", failed('running Bind plugin "A": oops'), bind=OOPS),
    at("bind", failed('running Bind plugin "A": bad'), bind=error("bad")),
    at("bind", failed('running Bind plugin "A": '), bind=WAIT),
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


@pytest.mark.parametrize(
    ("answer", "left"),
    [
        pytest.param(PostFilterResult(Status(Code.Success), "n2"), "n2", id="nominated"),
        pytest.param(PostFilterResult(unschedulable("no help"), ""), "", id="lost"),
        pytest.param(PostFilterResult(unschedulable("no help")), "n9", id="as-before"),
    ],
)
async def test_the_nomination_is_updated_in_memory_before_the_api(api_server, namespace, answer, left):
    before = [("nodes", node("n1")), ("nodes", node("n2")), ("pods", nominated())]
    made = setting(("postFilter", "filter"), {"post_filter": answer, "filter": refusing_all()})

    def wrap(api):
        api = Tampered(api)
        api.instead["patch"] = raising(Forbidden("you may not"))
        return api

    async with scheduled(api_server, namespace, before=before, wrap=wrap, **made) as c:
        assert (await c.pod("web"))["status"]["nominatedNodeName"] == "n9"
        uid = c.objects.made("pods", "web")["metadata"]["uid"]
        assert c.scheduler.state.nominator.node_of(uid) == left


async def test_no_nodes(api_server, namespace):
    async with scheduled(api_server, namespace, before=[("pods", nominated())], wrap=Tampered) as c:
        expected = failed("no nodes available to schedule pods", "Unschedulable")
        await check(c, "web", c.objects.made("pods", "web"), expected)
        # No plugin refused the pod, so no event wakes it: it backs off.
        await c.nodes(node("n1"))
        assert c.place("web") == "ERROR_BACKOFF"
        await c.advance(2.0)
        assert await c.node_of("web") == "n1"


async def test_a_pod_that_every_bind_plugin_skips_is_retried_silently(api_server, namespace):
    before = [("nodes", node("n1")), ("pods", nominated())]
    made = setting(["bind"], {"bind": SKIP})
    async with scheduled(api_server, namespace, before=before, wrap=Tampered, **made) as c:
        assert c.place("web") == "ERROR_BACKOFF"
        assert c.api.calls == []
        assert nothing_in_flight(c)
        made["plugins"][0].answers["bind"] = None
        await c.advance(2.0)
        # PreBind succeeded and Bind reported success, which the scheduler trusts.
        assert [e["reason"] for e in await c.events("web")] == ["Scheduled"]


async def test_unreserve_runs_in_reverse_order(api_server, namespace):
    log = []
    a, b, c_ = (
        answering("A", log=log),
        answering("B", log=log, reserve=unschedulable("no")),
        answering("C", log=log),
    )
    config = configuration(profile(reserve=[a, b, c_]))
    async with scheduled(api_server, namespace, config=config, plugins=[a, b, c_], before=[("nodes", node("n1"))]) as c:
        log.clear()
        await c.pods(pod("web"))
        assert log == ["A.reserve", "B.reserve", "C.unreserve", "B.unreserve", "A.unreserve"]
        assert c.queued("web").unschedulable_plugins == {"B"}
        assert nothing_in_flight(c)


@pytest.mark.parametrize("answer", [(unschedulable("no"), 0.0), OOPS], ids=["rejected", "error"])
async def test_unreserve_runs_when_permit_fails(api_server, namespace, answer):
    log = []
    a, b = answering("A", log=log), answering("B", log=log, permit=answer)
    config = configuration(profile(reserve=[a, b], permit=[b]))
    async with scheduled(api_server, namespace, config=config, plugins=[a, b], before=[("nodes", node("n1"))]) as c:
        await c.pods(pod("web"))
        assert log == ["A.reserve", "B.reserve", "B.permit", "B.unreserve", "A.unreserve"]
        assert nothing_in_flight(c)


async def test_errors_and_rejections_are_counted_separately(api_server, namespace):
    """Consecutive errors and consecutive rejections are counted separately; a rejection ends a series of errors."""
    a = answering("A", wakes=[on(NODE, Action.Add)], permit=OOPS)
    config = configuration(profile(permit=[a]))
    async with scheduled(api_server, namespace, config=config, plugins=[a], before=[("nodes", node("n1"))]) as c:
        await c.pods(pod("web"))
        counts = [_counts(c)]
        await c.advance(2.0)
        counts.append(_counts(c))
        a.answers["permit"] = (unschedulable("no"), 0.0)
        await c.advance(4.0)
        counts.append(_counts(c))
        a.answers["permit"] = OOPS
        await c.nodes(node("n2"))
        counts.append(_counts(c))
        assert counts == [
            ("ERROR_BACKOFF", set(), 0, 1),
            ("ERROR_BACKOFF", set(), 0, 2),
            ("UNSCHEDULABLE", {"A"}, 1, 0),
            ("ERROR_BACKOFF", set(), 1, 1),
        ]
        assert c.queued("web").attempts == 4


def _counts(c):
    queued = c.queued("web")
    return (
        queued.place.name,
        queued.unschedulable_plugins,
        queued.unschedulable_count,
        queued.consecutive_errors_count,
    )
