"""Asking a running scheduler about a pod changes nothing, and gives the same answer as an in-memory cluster.

The clusters are random: pods of several priorities, disruption budgets, preemptions in progress, gated pods, and a
user's PostFilter with side effects.
"""

import asyncio
import inspect
import json
from copy import deepcopy
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import stowplan
from stowplan.app.daemon.decision_pages import SchedulerPages
from stowplan.ask.explain.text.tables import page_from_json, plain
from stowplan.kube.metrics.registry import render
from stowplan.plugins import PostFilterPlugin, PostFilterResult, unschedulable
from stowplan.scheduler.engine.decision.questions import NOT_EFFECT_FREE
from stowplan.testing import a_node, a_pod
from support.examples import examples
from support.live.live_scheduler import live
from support.observing.log_lines import logged
from support.scheduling.worlds import budget
from support.serving.secure_port import asked

NODES = ("n0", "n1", "n2")
WEB = {"matchLabels": {"app": "web"}}
PRIORITIES = {"p0": 0, "p5": 5, "p9": 9, "polite": 9}


class Acting(PostFilterPlugin):
    """Has side effects, and does not declare itself effect-free."""

    name = "Acting"
    acted = 0

    def post_filter(self, state, pod, diagnosis):
        Acting.acted += 1
        return PostFilterResult(unschedulable("acted"))


class Harmless(PostFilterPlugin):
    name = "Harmless"
    effect_free = True

    def post_filter(self, state, pod, diagnosis):
        return PostFilterResult(unschedulable("asking" if state.asking else "deciding"))


CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"plugins": {"postFilter": {"enabled": [{"name": "Acting"}, {"name": "Harmless"}]}}}],
}
PLUGINS = [Acting, Harmless]


def classes():
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    found = {name: kind | {"metadata": {"name": name}, "value": value} for name, value in PRIORITIES.items()}
    found["polite"]["preemptionPolicy"] = "Never"
    return list(found.values())


@st.composite
def pods(draw, name):
    pod = a_pod(name).requests(cpu=str(draw(st.integers(1, 3))))
    pod = pod.labels(app=draw(st.sampled_from(("web", "db"))))
    if draw(st.integers(0, 7)) == 0:
        pod = pod.gated("example.com/wait")
    if draw(st.integers(0, 3)) == 0:
        pod = pod.avoids_pods("kubernetes.io/hostname", WEB)
    return pod.spec(priorityClassName=draw(st.sampled_from(sorted(PRIORITIES)))).obj()


@st.composite
def scenes(draw):
    nodes = [a_node(name).allocatable(cpu=str(draw(st.integers(1, 4))), pods="4").obj() for name in NODES]
    count = draw(st.integers(1, 8))
    budgets = [budget("web", WEB, draw(st.integers(0, 1)))] if draw(st.booleans()) else []
    return [*nodes, *budgets], [draw(pods(f"b{i}")) for i in range(count)]


async def answer_to(cluster, name, **query):
    pages = SchedulerPages(cluster.scheduler, times=cluster.time).pages()
    request = asked(f"/stowplan/explain/default/{name}", query={key: [value] for key, value in query.items()})
    answer = next(page for prefix, page in pages.items() if request.path.startswith(prefix))(request)
    return json.loads((await answer if inspect.isawaitable(answer) else answer).body)


def as_it_is(entry):
    """A copy of a queue entry, without its pod."""
    others = {name: deepcopy(getattr(entry, name)) for name in entry.__struct_fields__ if name != "pod"}
    return {**others, "pod": id(entry.pod)}


def everything(cluster, random):
    """Everything that a question could change."""
    scheduler = cluster.scheduler
    state, nominator = scheduler.state, scheduler.state.nominator
    scheduler.refresh_metrics()
    keys = [f"default/{stored.name}" for stored in cluster.server.store.list("pods", "")]
    queued = [scheduler.queue.get(key) for key in keys]
    return {
        "placed": [(info.uid, info.node_name, info.row) for on_node in state.row_pods for info in on_node],
        "requested": state.table.requested.tolist(),
        # The order of slots may differ: a pod that was taken off its node for a question may get another one.
        "versions": (state.table.generation, state.objects.total_version, state.changes.position, nominator.version),
        "nominations": {name: [info.key for info in nominator.on(name)] for name in nominator.nodes()},
        "queue": [entry and as_it_is(entry) for entry in queued],
        "stories": [story and story.record() for story in map(scheduler.stories.of, keys)],
        "metrics": render([scheduler.metrics._registry], "")[1],
        "chance": random.getstate(),
        "api": [stored.data for stored in cluster.server.store.list("pods", "")],
        "events": cluster.events(),
        "evictions": [id(preemption) for preemption in scheduler.engine.evictions._preemptions.values()],
        "acted": Acting.acted,
    }


def changed(before, after):
    return {name: (before[name], after[name]) for name in before if before[name] != after[name]}


def in_memory(cluster):
    kinds = ("nodes", "pods", "poddisruptionbudgets.policy")
    objects = [stored.to_dict() for kind in kinds for stored in cluster.server.store.list(kind, "")]
    return stowplan.Cluster(objects, CONFIG, plugins=PLUGINS, random=Random(1))


async def ask_about_all(objects, wanted):
    random = Random(2)
    async with live(*objects, *classes(), config=CONFIG, plugins=PLUGINS, random=random) as cluster:
        for pod in wanted:
            await cluster.create(pod)
        outside, before = in_memory(cluster), everything(cluster, random)
        with logged() as lines:
            for pod in wanted:
                name = pod["metadata"]["name"]
                if not any(stored.name == name for stored in cluster.server.store.list("pods", "")):
                    continue
                found = await answer_to(cluster, name)
                del found["scheduler"]
                assert found == outside.explain(f"default/{name}").to_dict()
                await answer_to(cluster, name, page="wide")
                assert changed(before, everything(cluster, random)) == {}
        assert lines.entries == []


@examples(25)
@given(scenes())
def test_asking_changes_nothing_and_agrees_with_an_in_memory_cluster(scene):
    asyncio.run(ask_about_all(*scene))


async def full_cluster(priority):
    objects = [a_node("n").allocatable(cpu="1", pods="4").obj(), *classes()]
    async with live(*objects, config=CONFIG, plugins=PLUGINS) as cluster:
        await cluster.create(a_pod("low").requests(cpu="1").spec(priorityClassName="p5").obj())
        await cluster.create(a_pod("other").requests(cpu="1").spec(priorityClassName=priority).obj())
        return await answer_to(cluster, "other"), await answer_to(cluster, "other", page="text"), in_memory(cluster)


@pytest.mark.parametrize("offline", [False, True], ids=["running", "in memory"])
async def test_a_plugin_with_effects_is_not_called_and_the_answer_names_it(offline):
    found, page, outside = await full_cluster("p0")
    acted = Acting.acted
    if offline:
        found = outside.explain("default/other").to_dict()
    assert found["notAsked"] == {"Acting": NOT_EFFECT_FREE}
    assert found["fullMessage"].endswith(" asking"), "an effect-free plugin's answer counts"
    assert Acting.acted == acted
    assert f"Not asked\n  Acting: {NOT_EFFECT_FREE}\n" in plain(page_from_json(page["page"]))


def test_a_pod_that_fits_names_no_skipped_plugin():
    cluster = stowplan.Cluster([a_node("n").obj()], CONFIG, plugins=PLUGINS)
    assert "notAsked" not in cluster.explain(a_pod("p").obj()).to_dict()
