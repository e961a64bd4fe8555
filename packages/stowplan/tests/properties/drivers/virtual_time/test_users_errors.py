"""Errors in out-of-tree plugins fail only their pod; the run continues and other pods are bound."""

import asyncio

import pytest

from stowplan import plugins
from stowplan.drivers.virtual_time.latency import Latency
from stowplan.kube.api.types import Node, Pod
from stowplan.scheduler.framework.events import POD, Action, on
from stowplan.scheduler.framework.interface import EnqueueExtensions, PreBindPlugin
from stowplan.scheduler.framework.requests import Bind, Create, Delete, Patch, Read, Update, Wait
from stowplan.scheduler.framework.status import SKIP, unschedulable
from support.plugins.answering_plugins import configuration, profile
from support.simulate.simulations import node, pod, simulation

#: The quick part tests an ordinary exception only.
FAILURES = [
    pytest.param(RuntimeError("mine"), id="RuntimeError"),
    *(
        pytest.param(failure("mine"), id=failure.__name__, marks=pytest.mark.slow)
        for failure in (SystemExit, asyncio.CancelledError, RecursionError)
    ),
]


class Fails(
    plugins.PreEnqueuePlugin,
    plugins.PreFilterPlugin,
    plugins.NodeFilterPlugin,
    plugins.PostFilterPlugin,
    plugins.PreScorePlugin,
    plugins.NodeScorePlugin,
    plugins.ReservePlugin,
    plugins.PermitPlugin,
    PreBindPlugin,
    plugins.BindPlugin,
    plugins.PostBindPlugin,
    EnqueueExtensions,
):
    """Raises for the pod named bad in the method that the test selects."""

    name = "Fails"
    method = ""
    failure = None

    def raises(self, method, pod):
        if pod.name == "bad" and method in self.method.split("+"):
            raise self.failure

    def pre_enqueue(self, pod):
        self.raises("pre_enqueue", pod)

    def pre_filter(self, state, pod, nodes):
        self.raises("pre_filter", pod)

    def filter_node(self, state, pod, node):
        self.raises("filter_node", pod)
        return unschedulable("no") if pod.name == "bad" and "post_filter" in self.method else None

    def post_filter(self, state, pod, diagnosis):
        self.raises("post_filter", pod)
        return super().post_filter(state, pod, diagnosis)

    def pre_score(self, state, pod, nodes):
        self.raises("pre_score", pod)

    def score_node(self, state, pod, node):
        self.raises("score_node", pod)
        return 0

    def normalize(self, state, pod, scores, feasible):
        self.raises("normalize", pod)
        return scores

    def reserve(self, state, pod, node_name):
        self.raises("reserve", pod)

    def unreserve(self, state, pod, node_name):
        self.raises("unreserve", pod)

    def permit(self, state, pod, node_name):
        self.raises("permit", pod)
        return None, 0.0

    def pre_bind_pre_flight(self, state, pod, node_name):
        self.raises("pre_bind_pre_flight", pod)

    async def pre_bind(self, state, pod, node_name):
        self.raises("pre_bind", pod)

    async def bind(self, state, pod, node_name):
        self.raises("bind", pod)
        return SKIP

    async def post_bind(self, state, pod, node_name):
        self.raises("post_bind", pod)

    def events_to_register(self):
        return (on(POD, Action.All, self.hint),)

    def hint(self, pod, old, new):
        self.raises("hint", pod)
        return super().hint(pod, old, new)


EVERYWHERE = {
    "plugins": {
        "multiPoint": {"enabled": [{"name": "Fails"}]},
        "bind": {"enabled": [{"name": "Fails"}, {"name": "DefaultBinder"}], "disabled": [{"name": "*"}]},
    }
}
METHODS = [
    "pre_enqueue",
    "pre_filter",
    "filter_node",
    "post_filter",
    "pre_score",
    "score_node",
    "normalize",
    "reserve",
    "permit+unreserve",
    "permit",
    "pre_bind_pre_flight",
    "pre_bind",
    "bind",
    "bind+unreserve",
    "post_bind",
    "pre_filter+hint",
]


def run(plugin, config, *, latency=None):
    """Two good pods and a bad one on two nodes for half a minute; returns the bad one's place, and the time."""
    engine, time = simulation(plugin, config=config, latency=latency or Latency())
    for name in ("n1", "n2"):
        time.write(node(name))
    for name in ("good-1", "bad", "good-2"):
        time.write(pod(name))
    time.advance(30.0)
    engine.validate()
    nodes = {one.metadata.name: one.spec.node_name for one in time.store.list(Pod)}
    assert nodes["good-1"]
    assert nodes["good-2"]
    return nodes["bad"], time


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("method", METHODS)
def test_exceptions_in_any_method(monkeypatch, method, failure):
    monkeypatch.setattr(Fails, "method", method)
    monkeypatch.setattr(Fails, "failure", failure)
    where, _ = run(Fails, configuration({"schedulerName": "default-scheduler", **EVERYWHERE}))
    assert bool(where) == (method == "post_bind")


# -- invalid requests --------------------------------------------------------------------------------------------------

NONSENSE = {
    "create a text": Create(obj="pod"),
    "create nothing": Create(obj=None),
    "update a number": Update(obj=5),
    "patch a number": Patch(kind=5, namespace="", name="n1", body={}),
    "patch with a text": Patch(kind=Node, namespace="", name="n1", body="text", type_="merge"),
    "patch with lists for fields": Patch(kind=Node, namespace="", name="n1", body={"spec": []}, type_="merge"),
    "patch of metadata with a text": Patch(kind=Node, namespace="", name="n1", body={"metadata": "x"}, type_="merge"),
    "delete a list": Delete(kind=Node, namespace="", name=["n1"]),
    "delete of no kind": Delete(kind=None, namespace="", name="n1"),
    "read a dict": Read(kind=Node, namespace="", name={}),
    "read of a text": Read(kind="Node", namespace="", name="n1"),
    "bind a list": Bind(namespace="default", name=["bad"], uid="", node="n1"),
}


async def by_the_api(api, request):
    match request:
        case Create():
            await api.create(request.obj)
        case Update():
            await api.update(request.obj)
        case Patch():
            await api.patch(request.kind, request.name, request.body, type_=request.type_, namespace=request.namespace)
        case Delete():
            await api.delete(request.kind, request.name, namespace=request.namespace)
        case Read():
            await api.get(request.kind, request.name, namespace=request.namespace)
        case Bind():
            await api.bind(namespace=request.namespace, name=request.name, uid=request.uid, node=request.node)


class Asks(PreBindPlugin):
    """A coroutine that makes invalid requests."""

    name = "Asks"
    request = None

    async def pre_bind(self, state, pod, node_name):
        if pod.name == "bad":
            await by_the_api(self.handle.api, self.request)


class Steps(PreBindPlugin):
    """The same in steps."""

    name = "Steps"
    request = None

    def pre_bind(self, state, pod, node_name):
        outcome = yield self.request if pod.name == "bad" else Wait(seconds=0)
        if hasattr(outcome, "error"):
            raise outcome.error


@pytest.mark.parametrize("seconds", [0.0, pytest.param(0.25, marks=pytest.mark.slow)])
@pytest.mark.parametrize("plugin", [Asks, Steps])
@pytest.mark.parametrize("request_", NONSENSE.values(), ids=NONSENSE)
def test_an_invalid_request_fails_the_attempt(monkeypatch, plugin, request_, seconds):
    monkeypatch.setattr(plugin, "request", request_)
    where, time = run(plugin, configuration(profile(preBind=[plugin])), latency=Latency(requests=seconds))
    assert where == ""
    (condition,) = time.store.get(Pod, "default", "bad").status.conditions
    assert f'running PreBind plugin "{plugin.name}": ' in condition.message
