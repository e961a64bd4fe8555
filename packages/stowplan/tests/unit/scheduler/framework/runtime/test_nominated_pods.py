"""A node must fit the pod both with and without the pods nominated to the node."""

import pytest

import stowplan
from stowplan.scheduler.framework.status import Code, error, unschedulable
from stowplan.testing import a_node, a_pod
from support.plugins.fake_plugins import fake, framework_of, judged
from support.plugins.profiles import framework
from support.plugins.raised import in_short
from support.scheduling.worlds import HOST, ZONE, state_of, struct


def nominate(state, pod, node):
    state.nominator.add(state.pod_info(struct(pod)), node)


def feasible_with(pod, nominated, node="a"):
    state = state_of([a_node("a").zone("x").allocatable(cpu=2), a_node("b").zone("y").allocatable(cpu=2)])
    nominate(state, nominated, node)
    _, outcome, _ = judged(framework(state), pod)
    return [name for name, row in state.table.row_of.items() if outcome.feasible[row]]


WEB = {"matchLabels": {"app": "web"}}


@pytest.mark.parametrize(
    ("nominated", "feasible"),
    [
        pytest.param(a_pod("p").uid("p").priority(10).requests(cpu="2"), ["b"], id="equal priority"),
        pytest.param(a_pod("p").uid("p").priority(11).requests(cpu="2"), ["b"], id="higher priority"),
        pytest.param(a_pod("p").uid("p").priority(9).requests(cpu="2"), ["a", "b"], id="lower priority"),
        pytest.param(a_pod("p").uid("me").priority(11).requests(cpu="2"), ["a", "b"], id="the pod itself"),
        pytest.param(a_pod("p").uid("p").priority(10).requests(cpu="1"), ["a", "b"], id="both fit"),
        pytest.param(a_pod("p").uid("p").priority(10).host_port(80), ["b"], id="its port"),
        pytest.param(a_pod("p").uid("p").priority(10).labels(app="web"), ["b"], id="anti-affinity"),
    ],
)
def test_nominated_pods_count(nominated, feasible):
    pod = a_pod("me").uid("me").priority(10).requests(cpu="1").host_port(80).avoids_pods(HOST, WEB)
    assert feasible_with(pod, nominated) == feasible


@pytest.mark.parametrize(
    ("order", "feasible"),
    [
        pytest.param(("me", "p"), ["a", "b"], id="it was nominated first"),
        pytest.param(("p", "me"), ["b"], id="it came later"),
        pytest.param(("me", "p", "me"), ["a", "b"], id="renewed, a nomination keeps its age"),
        pytest.param(("me", "p", "elsewhere", "me"), ["b"], id="given up meanwhile, it does not"),
    ],
)
def test_the_earlier_of_equal_nominations_has_precedence(order, feasible):
    state = state_of([a_node("a").allocatable(cpu=2), a_node("b").allocatable(cpu=2)])
    pods = {name: a_pod(name).uid(name).priority(10).requests(cpu="2") for name in ("me", "p")}
    for name in order:
        nominate(state, pods["me" if name == "elsewhere" else name], "b" if name == "elsewhere" else "a")
    _, outcome, _ = judged(framework(state), pods["me"])
    assert [name for name, row in state.table.row_of.items() if outcome.feasible[row]] == feasible


def test_a_nominated_pod_does_not_satisfy_affinity():
    """Affinity to it is not satisfied: the second pass filters without it."""
    pod = a_pod("me").requires_pods(ZONE, WEB)
    assert feasible_with(pod, a_pod("p").uid("p").labels(app="web")) == []


def test_a_nomination_of_a_missing_node_is_ignored():
    assert feasible_with(a_pod("me").requests(cpu="1"), a_pod("p").uid("p").requests(cpu="2"), "gone") == ["a", "b"]


@pytest.mark.parametrize(
    "arrival",
    [
        pytest.param(a_pod("p").uid("p").requests(cpu="1").on("b"), id="it is bound elsewhere"),
        pytest.param(a_pod("p").uid("another").requests(cpu="1"), id="another pod has its name now"),
    ],
)
def test_a_nomination_ends_when_the_pod_is_bound_or_gone(arrival):
    nominated = a_pod("p").uid("p").requests(cpu="1").nominated_to("a")
    cluster = stowplan.Cluster([a_node("a").allocatable(cpu=1).obj(), nominated.obj()])
    pod = a_pod("me").requests(cpu="1").obj()
    assert cluster.explain(pod).to_dict()["rejected"].keys() == {"a"}
    cluster.add(arrival.obj())
    assert cluster.explain(pod).to_dict()["feasible"] == ["a"]


def test_the_first_pass_gives_the_reason():
    state = state_of([a_node("a").allocatable(cpu=2)])
    nominate(state, a_pod("p").uid("p").requests(cpu="2"), "a")
    _, outcome, _ = judged(framework(state), a_pod("me").requests(cpu="1"))
    assert outcome.diagnosis.message() == "0/1 nodes are available: 1 Insufficient cpu."
    assert outcome.diagnosis.unschedulable_plugins == {"NodeResourcesFit"}
    assert outcome.diagnosis.status(0).plugin == "NodeResourcesFit"


def seen_by(**answers):
    """What a plugin with pod extensions was called with: (what, pods on the node) of each call."""
    seen = []

    def note(what, answer=None):
        def call(state, pod, *rest):
            node = rest[-1]
            other = [rest[0].uid] if len(rest) == 2 else []
            seen.append((what, *other, [p.uid for p in node.pods]))
            return answer

        return call

    notes = {"add_pod": note("add"), "remove_pod": note("remove"), "filter": note("filter")}
    return fake("P", pre_filter=answers.pop("pre_filter", None), **{**notes, **answers}), seen


def test_two_passes():
    state = state_of([a_node("a")], [a_pod("there").uid("there").on("a")])
    nominate(state, a_pod("p").uid("p"), "a")
    plugin, seen = seen_by()
    _, outcome, _ = judged(framework_of(state, plugin), a_pod("me"))
    assert outcome.feasible.tolist() == [True]
    assert ("add", "p", ["there", "p"]) in seen
    assert ("filter", ["there", "p"]) in seen
    assert ("filter", ["there"]) in seen
    assert [p.uid for p in state.row_pods[0]] == ["there"]


def test_extensions_of_skipping_plugins_are_not_called():
    from stowplan.scheduler.framework.status import SKIP

    state = state_of([a_node("a")])
    nominate(state, a_pod("p").uid("p"), "a")
    plugin, seen = seen_by(pre_filter=SKIP)
    judged(framework_of(state, plugin), a_pod("me"))
    assert seen == []


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        pytest.param(ValueError("boom"), "boom", id="raises"),
        pytest.param(error("went wrong"), "went wrong", id="error"),
        pytest.param(unschedulable("no"), "no", id="refuses"),
    ],
)
def test_extensions_that_fail(answer, text):
    state = state_of([a_node("a")])
    nominate(state, a_pod("p").uid("p"), "a")
    plugin, _ = seen_by(add_pod=answer)
    _, outcome, _ = judged(framework_of(state, plugin), a_pod("me"))
    assert outcome.error.code is Code.Error
    assert in_short(outcome.error.message) == f'running AddPod on PreFilter plugin "P": {text}'
