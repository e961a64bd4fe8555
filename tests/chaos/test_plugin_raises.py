"""A user's plugin raises any exception anywhere: its pod's attempt fails, and says so; other pods are not affected.

Each row of the table is a method that the scheduler calls, tried with each kind of exception: on a `Cluster`, whose
decisions are at hand, or on a live scheduler for what only that has: a queue, coroutines and their cancellation.
"""

import asyncio
import re
from inspect import iscoroutinefunction

import numpy as np
import pytest

import stowplan
from stowplan.plugins import (
    NODE,
    SKIP,
    Action,
    Bind,
    BindPlugin,
    CopiedAtBeginning,
    CountsPods,
    EnqueueExtensions,
    FilterPlugin,
    NodeFilterPlugin,
    NodePodExtensions,
    NodeScorePlugin,
    PermitPlugin,
    PlacementGeneratePlugin,
    PlacementScorePlugin,
    PodExtensions,
    PostBindPlugin,
    PostFilterPlugin,
    PostFilterResult,
    PreBindPlugin,
    PreBindPreFlightResult,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    Read,
    Reads,
    ReservePlugin,
    ScorePlugin,
    SignPlugin,
    on,
    unschedulable,
)
from stowplan.scheduler.framework.interface import RequestBinder, extension_points
from stowplan.scheduler.framework.runtime.profile_plugins import PluginInitError
from stowplan.testing import a_node, a_pod
from stowplan.testing.live import live_cluster
from support.live.live_scheduler import live
from support.plugins import hanging_plugins as hanging
from support.scheduling.groups import a_group
from support.soak.checks import equals_a_rebuild, nothing_is_under_way


class Own(BaseException):
    """An exception of the plugin's author that `except Exception` does not catch."""


def recursion():
    return recursion()


def raising(error):
    def way():
        raise error

    return way


#: What users' code raises, intentionally or not; exceptions that end a program must not end the scheduler.
WAYS = {
    "ValueError": raising(ValueError("boom")),
    "KeyError": lambda: {}["absent"],
    "RecursionError": recursion,
    "MemoryError": raising(MemoryError()),
    "StopIteration": raising(StopIteration(1)),
    "ExceptionGroup": raising(ExceptionGroup("several", [ValueError("one"), OSError("two")])),
    "CancelledError": raising(asyncio.CancelledError()),
    "GeneratorExit": raising(GeneratorExit()),
    "SystemExit": raising(SystemExit(3)),
    "Own": raising(Own("mine")),
}
GATES = {"GenericWorkload": True, "GangScheduling": True, "TopologyAwareWorkloadScheduling": True}


# -- the plugins, which do nothing ------------------------------------------------------------------------------------


def nothing(self, *args):
    return None


async def nothing_later(self, *args):
    return None


def no(self, *args):
    return False


def yes(self, *args):
    return True


class Signs(SignPlugin):
    name = "Odd"

    def sign_pod(self, pod):
        return {}


class Points(
    PreEnqueuePlugin,
    PreFilterPlugin,
    NodePodExtensions,
    FilterPlugin,
    PostFilterPlugin,
    PreScorePlugin,
    ScorePlugin,
    ReservePlugin,
    PermitPlugin,
    PreBindPlugin,
    BindPlugin,
    PostBindPlugin,
    Signs,
    EnqueueExtensions,
):
    changes_assumed_pods = effect_free = True
    #: Whether it rejects the first pod at Permit.
    rejects = False
    pre_enqueue = pre_filter = add_pod = remove_pod = filter = pre_score = reserve = unreserve = hint = nothing
    pre_bind = post_bind = nothing_later
    sign_version = ignores = no

    def post_filter(self, state, pod, diagnosis):
        return PostFilterResult(unschedulable())

    def score(self, state, pod, nodes):
        return np.zeros(len(nodes), np.int64)

    def normalize(self, state, pod, scores, feasible):
        return scores

    def assumed(self, state, pod, node_name):
        return pod.pod

    def permit(self, state, pod, node_name):
        rejects, type(self).rejects = self.rejects, False
        return unschedulable("so that Unreserve is called") if rejects else None, 0.0

    def pre_bind_pre_flight(self, state, pod, node_name):
        return PreBindPreFlightResult()

    async def bind(self, state, pod, node_name):
        return SKIP

    def events_to_register(self):
        return [on(NODE, Action.All, self.hint)]


class Shifts(PreFilterPlugin, PodExtensions, FilterPlugin, Signs):
    pre_filter = filter = shift_pods = nothing


class Equal(PostFilterPlugin, Signs):
    """Pods that it cannot help are equal."""

    effect_free = True
    post_filter, repeats, repeated = Points.post_filter, yes, nothing


class Permits(PermitPlugin, Signs):
    quorum = no

    def permit(self, state, pod, node_name):
        return None, 0.0


class ByNode(NodeFilterPlugin, NodeScorePlugin, Signs):
    filter_node, score_node = nothing, yes


class Counts(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin, CountsPods, Signs):
    reads = Reads.CLUSTER_PODS
    pre_filter = filter = pre_score = nothing
    score, filter_holds, score_holds, batch_state = Points.score, yes, yes, nothing

    def reads_objects(self, pod):
        return ()


class Sums(FilterPlugin, ScorePlugin, Signs):
    reads = Reads.NODE_SUMS
    filter, score = nothing, Points.score

    def reads_objects(self, pod):
        return ()

    aggregate_key = reads_objects


class Placements(PlacementGeneratePlugin, PlacementScorePlugin):
    name = "Odd"

    def generate_placements(self, group_state, group, parent):
        first = np.arange(len(parent.nodes)) == 0
        return [parent.restricted(first, "first"), parent.restricted(~first, "others")]

    def score_placement(self, group_state, group, assignments):
        return 1

    def normalize_placements(self, group_state, group, scores):
        return scores


class Requests(RequestBinder):
    name = "Odd"

    def bind_request(self, pod, node_name):
        return Bind(namespace=pod.namespace, name=pod.name, uid=pod.uid, node=node_name)

    def bind_answer(self, outcome):
        return None


class Steps(PostFilterPlugin, PreBindPlugin, BindPlugin, PostBindPlugin):
    name = "Odd"

    def post_filter(self, state, pod, diagnosis):
        yield self.read(pod)
        self.in_post_filter()
        return PostFilterResult(unschedulable())

    def pre_bind(self, state, pod, node_name):
        yield self.read(pod)
        self.in_pre_bind()

    def bind(self, state, pod, node_name):
        yield self.read(pod)
        self.in_bind()
        return SKIP

    def post_bind(self, state, pod, node_name):
        yield self.read(pod)
        self.in_post_bind()

    def read(self, pod):
        return Read(kind=type(pod.pod), namespace=pod.namespace, name=pod.name)

    in_post_filter = in_pre_bind = in_bind = in_post_bind = nothing


class Registers(Points):
    """Has state of its own that transactions restore."""

    def __init__(self, args, handle):
        super().__init__(args, handle)
        handle.register_participant("odd", CopiedAtBeginning(self.copied, self.restored))

    copied = restored = nothing


# -- on a Cluster -----------------------------------------------------------------------------------------------------


def odd(base, method, way):
    """The plugin, which raises (or returns what it should not) in the first call of a method; and how often it will."""
    original, left = getattr(base, method), [1]

    def maybe():
        if left[0]:
            left[0] -= 1
            return way()
        return None

    def raises(self, *args):
        return maybe() or original(self, *args)

    async def raises_later(self, *args):
        return maybe() or await original(self, *args)

    members = {method: raises_later if iscoroutinefunction(original) else raises, "rejects": method == "unreserve"}
    return type("Odd", (base,), members), left


#: Points at which the plugin replaces all others.
ALONE = ("postFilter", "queueSort", "bind", "placementGenerate")


def configuration(plugin):
    plugins = {point: {"enabled": [{"name": "Odd"}]} for point in extension_points(plugin)}
    plugins |= {point: {**plugins[point], "disabled": [{"name": "*"}]} for point in ALONE if point in plugins}
    if "bind" in plugins and plugin.__base__ is not Requests:
        plugins["bind"]["enabled"].append({"name": "DefaultBinder"})
    if plugin.__base__ is Points:
        plugins["postFilter"]["enabled"].append({"name": "DefaultPreemption"})
    config = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return config | {"profiles": [{"plugins": plugins}]}


def nodes():
    return [a_node(f"n{i}").allocatable(cpu="8", pods="20").obj() for i in range(3)]


def cluster_with(plugin, gates=None):
    return stowplan.Cluster(
        nodes(), configuration(plugin), plugins=[plugin], feature_gates=gates, emulated_version="1.36"
    )


def single_pods(cluster):
    return [cluster.schedule([a_pod(name).requests(cpu="1").obj()])[0] for name in ("odd", "second", "third")]


def a_preemptor(cluster):
    for i in range(3):
        cluster.add(a_pod(f"low{i}").requests(cpu="6").on(f"n{i}").obj())
    return cluster.schedule([a_pod("odd").requests(cpu="5").priority(10).obj()])


def a_gang(cluster, cpu="1"):
    cluster.add(a_group("g", gang=2))
    odd = a_pod("odd").requests(cpu=cpu).spec(schedulingGroup={"podGroupName": "g"})
    second = a_pod("second").requests(cpu=cpu).spec(schedulingGroup={"podGroupName": "g"})
    return cluster.schedule([odd.obj(), second.obj()])


def a_gang_that_does_not_fit(cluster):
    return a_gang(cluster, cpu="100")


def a_question(cluster):
    cluster.hints(None, a_node("new").obj(), a_pod("odd").obj())
    return []


#: Methods whose failure fails the attempt: its status names the plugin. (Plugin, what is tried, methods)
FAILING = [
    (Points, single_pods, "pre_filter filter pre_score score normalize assumed reserve permit"),
    (Points, single_pods, "pre_bind_pre_flight pre_bind bind"),
    (Points, a_preemptor, "add_pod remove_pod post_filter"),
    (Shifts, a_preemptor, "shift_pods"),
    (ByNode, single_pods, "filter_node score_node"),
    (Counts, single_pods, "pre_filter filter pre_score score"),
    (Sums, single_pods, "aggregate_key filter score"),
    (Placements, a_gang, "generate_placements score_placement normalize_placements"),
    (Requests, single_pods, "bind_request bind_answer"),
    (Steps, a_preemptor, "in_post_filter"),
    (Steps, single_pods, "in_pre_bind in_bind"),
]
#: Methods whose failure is logged, with the plugin's name.
LOGGED = [
    (Points, single_pods, "pre_enqueue sign_pod unreserve post_bind"),
    (Steps, single_pods, "in_post_bind"),
]
#: Declarations: they do not hold if they raise, and the plugin is called in full.
DECLARATIONS = [
    (Points, single_pods, "sign_version ignores"),
    (Points, a_question, "hint"),
    (Counts, single_pods, "reads_objects filter_holds score_holds"),
    (Counts, a_gang, "batch_state"),
    (Permits, a_gang, "quorum"),
    (Equal, a_gang_that_does_not_fit, "repeats repeated"),
]


def rows(table):
    return [
        pytest.param(base, tried, method, id=f"{base.__name__}.{method}")
        for base, tried, methods in table
        for method in methods.split()
    ]


def tried_with(base, tried, method, way):
    """The messages of attempts that failed, other than for lack of room, and what is logged."""
    plugin, left = odd(base, method, way)
    grouped = tried in (a_gang, a_gang_that_does_not_fit)
    cluster = cluster_with(plugin, GATES if grouped else None)
    decisions = tried(cluster)
    assert left == [0], "the method was not called"
    # The scheduler goes on.
    later = cluster.schedule([a_pod(f"good-{i}").obj() for i in range(3)])
    assert all(decision.node_name for decision in later)
    messages = [decision.message for decision in decisions if not decision.node_name]
    return messages, [*cluster.failures, *messages]


@pytest.mark.parametrize(("base", "tried", "method"), rows(FAILING))
def test_an_attempt_fails_with_the_plugins_name(base, tried, method):
    for kind, way in WAYS.items():
        failed, told = tried_with(base, tried, method, way)
        assert failed, f"{kind}: no attempt failed"
        assert any('"Odd"' in text and _names(text, kind) for text in told), (kind, told)


#: Of them, those whose result is checked.
CHECKED = [row for row in rows(FAILING) if "aggregate_key" not in row.id and ".in_" not in row.id]


@pytest.mark.parametrize(("base", "tried", "method"), CHECKED)
def test_an_invalid_result_is_reported_with_file_and_line(base, tried, method):
    _, told = tried_with(base, tried, method, lambda: "nonsense")
    where = r"\(test_plugin_raises\.py:\d+ in raises(_later)?\)"
    assert any('"Odd"' in text and re.search(where, text) and text.count("(test_") == 1 for text in told), told


@pytest.mark.parametrize(("base", "tried", "method"), rows(LOGGED))
def test_a_failure_is_logged_with_the_plugins_name(base, tried, method, caplog):
    for kind, way in WAYS.items():
        caplog.clear()
        plugin, left = odd(base, method, way)
        # A `Cluster` has no log.
        with live_cluster(*nodes(), config=configuration(plugin), plugins=[plugin]) as cluster:
            cluster.create(*(a_pod(name).requests(cpu="1").obj() for name in NAMES))
            cluster.advance(20)
            assert left == [0], "the method was not called"
            assert all(cluster.node_of(name) for name in NAMES[1:])
        assert any('"Odd"' in text and _names(text, kind) for text in caplog.messages), (kind, caplog.messages)


@pytest.mark.parametrize(("base", "tried", "method"), rows(DECLARATIONS))
def test_a_declaration_that_raises_does_not_hold(base, tried, method):
    for way in WAYS.values():
        failed, _ = tried_with(base, tried, method, way)
        assert bool(failed) is (tried is a_gang_that_does_not_fit), failed


def _names(text, kind):
    # Python replaces a StopIteration that leaves a coroutine or generator.
    return (kind in text and ".py:" in text) or (kind == "StopIteration" and "raised StopIteration" in text)


@pytest.mark.parametrize("kind", WAYS)
def test_registering_events_fails_the_start(kind):
    plugin, _ = odd(Points, "events_to_register", WAYS[kind])
    with pytest.raises(PluginInitError, match=f'registering the events of plugin "Odd": {kind}'):
        cluster_with(plugin)


@pytest.mark.parametrize("kind", WAYS)
def test_closing_goes_on(kind):
    plugin, left = odd(Points, "close", WAYS[kind])
    cluster = cluster_with(plugin)
    problems = [text for framework in cluster.algorithm.frameworks.values() for text in framework.close()]
    assert left == [0]
    assert len(problems) == 1
    assert problems[0].startswith("Odd failed to close: ")
    assert _names(problems[0], kind)


@pytest.mark.parametrize("kind", WAYS)
@pytest.mark.parametrize("method", ["copied", "restored"])
def test_state_in_transactions(kind, method):
    """The group's trial is a transaction; the next attempt succeeds."""
    plugin, left = odd(Registers, method, WAYS[kind])
    cluster = cluster_with(plugin, GATES)
    failed = a_gang(cluster)
    assert (left, [decision.node_name for decision in failed]) == ([0], ["", ""])
    pods = [decision.pod.pod for decision in failed]
    assert all(decision.node_name for decision in cluster.schedule(pods))


def test_ctrl_c_is_no_plugins_failure():
    for base, tried, methods in (*FAILING, *LOGGED, *DECLARATIONS):
        for method in methods.split():
            with pytest.raises(KeyboardInterrupt):
                tried_with(base, tried, method, raising(KeyboardInterrupt()))


# -- on a live scheduler ----------------------------------------------------------------------------------------------

NAMES = ["odd", *(f"good-{i}" for i in range(3))]


class Raises(hanging.Everywhere):
    @classmethod
    def at(cls, point, way, times=1):
        return type("Hanging", (cls,), {"point": point, "way": staticmethod(way), "left": [times]})


async def every_pod_is_bound(cluster, plugin):
    await cluster.patch("nodes", "n1", {"metadata": {"labels": {"open": "yes"}}}, namespace="")
    # Includes pods that are retried only every five minutes.
    await cluster.advance(25.0)
    assert {name: bool(cluster.node_of(name)) for name in NAMES} == dict.fromkeys(NAMES, True)
    assert plugin.left == [0], "the plugin was not called"
    nothing_is_under_way(cluster.scheduler)
    equals_a_rebuild(cluster.api, cluster.scheduler.state)
    for name in NAMES:
        uid = cluster.pod(name)["metadata"]["uid"]
        told = [e for e in cluster.events(name, "Scheduled") if e["regarding"]["uid"] == uid]
        assert len(told) == 1


async def run(point, way):
    plugin = Raises.at(point, way)
    async with live(*nodes(), config=hanging.configuration(plugin), plugins=[plugin]) as cluster:
        labels = {"hangs": "yes"} | ({"refused": "yes"} if point in ("postFilter", "hint") else {})
        await cluster.create(a_pod("odd").labels(**labels).obj(), *(a_pod(name).obj() for name in NAMES[1:]))
        assert all(cluster.node_of(name) for name in NAMES[1:])
        await every_pod_is_bound(cluster, plugin)


SYNCHRONOUS = ["sign", "preFilter", "filter", "postFilter", "preScore", "score", "normalize"]
SYNCHRONOUS += ["reserve", "unreserve", "permit", "preBindPreFlight"]


@pytest.mark.parametrize("point", SYNCHRONOUS)
async def test_a_live_scheduler_at_synchronous_points(point):
    await run(point, WAYS["SystemExit"])


@pytest.mark.parametrize("kind", WAYS)
@pytest.mark.parametrize("point", ["preEnqueue", "hint", "preBind", "preBind, later", "bind", "postBind"])
async def test_a_live_scheduler_in_its_queue_and_coroutines(point, kind):
    await run(point, WAYS[kind])


@pytest.mark.parametrize("kind", WAYS)
async def test_queue_sort_plugins(kind, caplog):
    plugin = type("Hanging", (hanging.Sorting,), {"point": "queueSort", "way": staticmethod(WAYS[kind]), "left": [1]})
    async with live(*nodes(), config=hanging.configuration(plugin), plugins=[plugin]) as cluster:
        cluster.server.create_all([a_pod(name).labels(hangs="yes").obj() for name in NAMES])
        await cluster.settle()
        await every_pod_is_bound(cluster, plugin)
    assert any('QueueSort plugin "Hanging"' in text and _names(text, kind) for text in caplog.messages)
