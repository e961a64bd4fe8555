"""Nodes that are nominated to pods: who has to leave them room, and how nominations come and go."""

import pytest

from stowplan.api.api_errors import Conflict
from stowplan.framework.status import Code, Status
from support.api.manifests import node, pod
from support.api.tampered_api import Held, Tampered, raising
from support.live.http_scheduler import scheduled
from support.plugins.answering_plugins import answering, configuration, profile
from support.scheduling.attempts import asking, attempts, labelled, moves, on
from support.scheduling.failed_attempts import nominated
from support.scheduling.preempting import CLASSES, nodes, nominated_node, pending_pod, placed, pods

ZONE = "topology.kubernetes.io/zone"


def nominated_pod(name="web", node_name="n1", **more):
    return {**pending_pod(name, **more), "status": {"nominatedNodeName": node_name}}


def spec_of(made, **spec):
    made["spec"] |= spec
    return made


def set_nomination(c, node_name, name="web"):
    return c.objects.patch("pods", name, {"status": {"nominatedNodeName": node_name}}, subresource="status")


# -- the nominated node is tried first --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nomination", "there", "expected"),
    [
        # Other nodes would be better, being empty.
        pytest.param("n2", [placed("a", "2", "n2")], "n2", id="taken"),
        pytest.param("n2", [placed("a", "3", "n2"), placed("b", "1")], "n3", id="full"),
        pytest.param("gone", [placed("a", "1"), placed("b", "1", "n2")], "n3", id="unknown"),
    ],
)
async def test_the_nominated_node_comes_first(api_server, namespace, nomination, there, expected):
    before = [
        *CLASSES,
        *nodes(node("n1"), node("n2"), node("n3")),
        *pods(*there, nominated_pod(node_name=nomination, cpu="2")),
    ]
    async with scheduled(api_server, namespace, before=before) as c:
        assert await c.node_of("web") == expected
        assert not c.scheduler.state.nominator


async def test_a_node_that_is_taken_as_nominated_is_not_scored(api_server, namespace):
    a = answering("A")
    config = configuration(profile(score=[a]))
    before = [*CLASSES, *nodes(node("n1"), node("n2"))]
    async with scheduled(api_server, namespace, config=config, plugins=[a], before=before) as c:
        await c.pods(nominated_pod(node_name="n2", cpu="1"))
        assert await c.node_of("web") == "n2"
        assert "A.score" not in a.log
        await c.pods(pod("other"))
        assert "A.score" in a.log


# -- who leaves room --------------------------------------------------------------------------------------------------

#: Of the four CPUs of n1 two are taken, and three are nominated to a pod that waits for those two.
TAKEN = [*CLASSES, *nodes(node("n1")), *pods(placed("leaving", "2", priority="most"), nominated_pod(priority="more"))]


@pytest.mark.parametrize(
    ("priority", "fits"),
    [
        pytest.param("", False, id="lesser"),
        pytest.param("more", False, id="equal"),
        pytest.param("most", True, id="greater"),
    ],
)
async def test_who_leaves_room(api_server, namespace, priority, fits):
    async with scheduled(api_server, namespace, before=TAKEN) as c:
        # Nothing helps the nominated pod: a nomination is kept in memory as long as it stands in the status.
        await set_nomination(c, "n1")
        await c.settle()
        other = asking(pod("other"), cpu="1")
        await c.pods(spec_of(other, priorityClassName=priority) if priority else other)
        assert await c.node_of("other") == ("n1" if fits else "")
        if not fits:
            assert (await c.condition("other"))["message"].startswith("0/1 nodes are available: 1 Insufficient cpu.")


async def test_once_the_nominated_pod_has_come_there_is_what_is_left(api_server, namespace):
    async with scheduled(api_server, namespace, before=TAKEN) as c:
        await set_nomination(c, "n1")
        await c.settle()
        await c.pods(asking(pod("one"), cpu="1"), asking(pod("two"), cpu="2"))
        assert await c.node_of("one") == await c.node_of("two") == ""
        await c.objects.delete("pods", "leaving")
        await c.settle()
        assert (await c.node_of("web"), await c.node_of("one"), await c.node_of("two")) == ("n1", "n1", "")
        assert not c.scheduler.state.nominator


def near(app, *, away=False):
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": app}}}
    kind = "podAntiAffinity" if away else "podAffinity"
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def with_port(made):
    """The pod, which shares its node with no other one of these."""
    made["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 8080}]
    return made


IN_ZONE = [
    *CLASSES,
    *nodes(labelled(node("n1"), **{ZONE: "a"})),
    *pods(with_port(placed("leaving", "1", priority="most"))),
]


async def test_a_nomination_alone_is_no_company(api_server, namespace):
    """A pod must fit with the nominated ones and without: they may never come."""
    async with scheduled(
        api_server, namespace, before=[*IN_ZONE, *pods(with_port(nominated_pod(cpu="1", priority="more")))]
    ) as c:
        await set_nomination(c, "n1")
        await c.settle()
        await c.pods(asking(pod("friend", **near("web")), cpu="100m"))
        assert await c.node_of("friend") == ""
        assert c.queued("friend").unschedulable_plugins == {"InterPodAffinity"}
        await c.objects.delete("pods", "leaving")
        await c.settle()
        assert await c.node_of("web") == await c.node_of("friend") == "n1"


async def test_a_nomination_keeps_others_away(api_server, namespace):
    async with scheduled(
        api_server, namespace, before=[*IN_ZONE, *pods(with_port(nominated_pod(cpu="1", priority="more")))]
    ) as c:
        await set_nomination(c, "n1")
        await c.settle()
        await c.pods(asking(pod("other", **near("web", away=True)), cpu="100m"))
        assert await c.node_of("other") == ""
        assert c.queued("other").unschedulable_plugins == {"InterPodAffinity"}


# -- nominations come and go ------------------------------------------------------------------------------------------


def large(name="web", priority="more"):
    """A pod that no node can take, so that nominations are a matter of its status."""
    return pending_pod(name, "64", priority)


def in_mind(c, name="web"):
    return c.scheduler.state.nominator.node_of(c.objects.made("pods", name)["metadata"]["uid"])


async def test_what_the_status_says(api_server, namespace):
    """As long as nobody tries the pod, nobody but its status speaks of it."""
    async with scheduled(api_server, namespace, before=[*CLASSES, *nodes(node("n1"), node("n2"))]) as c:
        await c.pods(spec_of(large(), schedulingGates=[{"name": "a"}]))
        assert in_mind(c) == ""
        for node_name in ("n1", "n2", None, "n1"):
            await set_nomination(c, node_name)
            await c.settle()
            assert in_mind(c) == (node_name or "")
        # Other changes do not matter.
        await c.objects.patch("pods", "web", {"metadata": {"labels": {"x": "y"}}})
        await c.settle()
        assert in_mind(c) == "n1"
        await c.objects.delete("pods", "web")
        await c.settle()
        assert not c.scheduler.state.nominator


async def test_somebody_else_binds_the_pod(api_server, namespace):
    async with scheduled(api_server, namespace, before=[*CLASSES, *nodes(node("n1"))]) as c:
        await c.pods(large())
        await set_nomination(c, "n1")
        await c.settle()
        assert in_mind(c) == "n1"
        await c.objects.bind("web", "n1")
        await c.settle()
        assert (in_mind(c), c.place("web")) == ("", "")


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(lambda c: set_nomination(c, None), id="taken back"),
        pytest.param(lambda c: set_nomination(c, "n9"), id="moved"),
        pytest.param(lambda c: c.objects.delete("pods", "web"), id="deleted"),
    ],
)
async def test_a_lost_nomination_wakes_who_left_room(api_server, namespace, end):
    """Those who are no more important than the pod that lost it."""
    async with scheduled(api_server, namespace, before=[*CLASSES, *nodes(node("n1"))]) as c:
        await c.pods(large())
        await set_nomination(c, "n1")
        await c.settle()
        await c.pods(asking(pod("lesser"), cpu="1"), large("greater", "most"))
        assert await c.node_of("lesser") == ""
        tried = len(attempts(c, "greater"))
        await end(c)
        await c.settle()
        assert await c.node_of("lesser") == "n1"
        assert moves(c, "lesser")[-1] == ("backoff", "AssignedPodDelete")
        assert len(attempts(c, "greater")) == tried


async def test_a_pod_that_fails_for_good_loses_its_nomination(api_server, namespace):
    """In memory at once, and in its status: who leaves room for it need not wait for the API."""
    async with scheduled(api_server, namespace, before=[*CLASSES, *nodes(node("n1"))], wrap=Tampered) as c:
        held = c.api.instead["patch"] = Held()
        await c.objects.create("pods", {**large(), "status": {"nominatedNodeName": "n1"}})
        await held.waiting.wait()
        assert in_mind(c) == ""
        held.let_go()
        await c.settle()
        assert await nominated_node(c) == ""
        assert c.api.status_patches("web")[0]["status"]["nominatedNodeName"] is None


async def test_a_nomination_that_the_api_does_not_learn_of_stays_in_mind(api_server, namespace):
    """The room that was made is kept for the pod although its status does not say so."""
    before = [*CLASSES, *nodes(node("n1")), *pods(placed("victim"))]
    async with scheduled(api_server, namespace, before=before, wrap=Tampered) as c:
        failing = raising(Conflict("etcd is tired"))

        async def not_for_web(call, go_on):
            return await (failing(call, go_on) if call.name == "web" else go_on())

        c.api.instead["patch"] = not_for_web
        await c.pods(pending_pod())
        assert in_mind(c) == "n1"
        assert (await c.pod("web"))["status"].get("nominatedNodeName", "") == ""
        await c.objects.patch("pods", "web", {"metadata": {"labels": {"x": "y"}}})
        await c.settle()
        assert in_mind(c) == "n1"
        await c.pods(asking(pod("other"), cpu="1500m"))
        assert await c.node_of("other") == ""


async def test_a_pod_on_its_way_needs_no_nomination(api_server, namespace):
    """As soon as it is assumed it takes its room itself."""
    a = answering("A", permit=(Status(Code.Wait), 60.0))
    config = configuration(profile(permit=[a]))
    before = [*CLASSES, *nodes(node("n1"))]
    async with scheduled(api_server, namespace, config=config, plugins=[a], before=before) as c:
        await c.pods(nominated_pod(cpu="2"))
        assert in_mind(c) == ""
        assert [info.key for info in c.scheduler.state.placed_pods()] == [f"{namespace}/web"]
        # Two CPUs are left, not none.
        a.answers["permit"] = (None, 0.0)
        await c.pods(asking(pod("other"), cpu="2"))
        assert await c.node_of("other") == "n1"


async def test_a_pod_of_another_scheduler_nominations_nothing_here(api_server, namespace):
    async with scheduled(api_server, namespace, before=[*CLASSES, *nodes(node("n1"))]) as c:
        await c.pods({**spec_of(large(), schedulerName="nobody"), "status": {"nominatedNodeName": "n1"}})
        assert not c.scheduler.state.nominator
        await c.pods(nominated("other", "n1"), on("n1", pod("there")))
        assert await c.node_of("other") == "n1"
        assert not c.scheduler.state.nominator
