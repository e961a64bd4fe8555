"""How the framework interprets plugins' results: which end the attempt, with which message, and the effect of Skip."""

import numpy as np
import pytest

from stowplan import Cluster
from stowplan.plugins import PreFilterResult, SignPlugin
from stowplan.scheduler.engine.decision.algorithm import SchedulingAlgorithm
from stowplan.scheduler.engine.decision.cycle_steps import run_at_once
from stowplan.scheduler.engine.schedule_one import schedule_pod
from stowplan.scheduler.framework.interface import EXTENSION_POINTS
from stowplan.scheduler.framework.runtime.framework import Framework
from stowplan.scheduler.framework.runtime.profile_plugins import PluginInitError
from stowplan.scheduler.framework.status import Code, Status, error, unschedulable
from stowplan.testing import a_node, a_pod
from support.plugins.answering_plugins import configuration
from support.plugins.fake_plugins import fake, framework_of, judged
from support.plugins.raised import in_short
from support.scheduling.worlds import state_of, struct

BOOM = ValueError("boom")
WAIT, PENDING = Status(Code.Wait, ("hold on",)), Status(Code.Pending, ("soon",))
ODD_ANSWERS = [
    pytest.param(BOOM, "boom", id="raises"),
    pytest.param(error("went wrong"), "went wrong", id="error"),
]


@pytest.fixture
def state():
    return state_of([a_node("a"), a_node("b")])


def only(*names):
    return PreFilterResult(frozenset(names))


# -- errors ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("answer", "text"), [*ODD_ANSWERS, pytest.param(WAIT, "hold on", id="wait"),
                                              pytest.param(PENDING, "soon", id="pending")])  # fmt: skip
def test_pre_filter_that_fails(state, answer, text):
    _, outcome, _ = judged(framework_of(state, fake("P", pre_filter=answer)), a_pod())
    assert (outcome.error.code, in_short(outcome.error.message)) == (
        Code.Error,
        f'running PreFilter plugin "P": {text}',
    )


@pytest.mark.parametrize(("answer", "text"), [*ODD_ANSWERS, pytest.param(WAIT, "hold on", id="wait"),
                                              pytest.param(Status(Code.Skip, ("no",)), "no", id="skip")])  # fmt: skip
def test_filter_that_fails(state, answer, text):
    _, outcome, _ = judged(framework_of(state, fake("P", filter=answer)), a_pod())
    assert (outcome.error.code, in_short(outcome.error.message)) == (Code.Error, f'running "P" filter plugin: {text}')


@pytest.mark.parametrize(
    ("answers", "text"),
    [
        pytest.param({"pre_score": BOOM}, 'running PreScore plugin "P": boom', id="PreScore raises"),
        pytest.param({"pre_score": unschedulable("no")}, 'running PreScore plugin "P": no', id="PreScore refuses"),
        pytest.param({"score": BOOM}, 'running Score plugins: plugin "P" failed with: boom', id="Score raises"),
        pytest.param(
            {"score": unschedulable("no")}, 'running Score plugins: plugin "P" failed with: no', id="Score refuses"
        ),
        pytest.param(
            {"normalize": BOOM},
            'running Normalize on Score plugins: plugin "P" failed with: boom',
            id="Normalize raises",
        ),
        pytest.param(
            {"normalize": error("no")},
            'running Normalize on Score plugins: plugin "P" failed with: no',
            id="Normalize fails",
        ),
        *(
            pytest.param(
                {"score": wrong},
                f'applying score defaultWeights on Score plugins: plugin "P" returns an invalid score {wrong}, '
                "it should in the range of [0, 100] after normalizing",
                id=f"Score {wrong}",
            )
            for wrong in (101, -1)
        ),
        pytest.param(
            {"score": 7, "normalize": lambda state, pod, scores, feasible: scores * 15},
            'applying score defaultWeights on Score plugins: plugin "P" returns an invalid score 105, '
            "it should in the range of [0, 100] after normalizing",
            id="Normalize out of range",
        ),
    ],
)
def test_scoring_that_fails(state, answers, text):
    evaluation, outcome, pod = judged(framework_of(state, fake("P", **answers)), a_pod())
    failed = evaluation.score(pod, outcome.feasible).error
    assert (failed.code, in_short(failed.message)) == (Code.Error, text)


def test_an_exception_fails_only_the_pod(state):
    moody = fake("P", filter=lambda state, pod, node: 1 / 0 if pod.labels.get("app") == "bad" else None)
    profile = framework_of(state, moody)
    scheduler = SchedulingAlgorithm(state, {"default-scheduler": profile})
    bad = run_at_once(schedule_pod(scheduler, profile, state.pod_info(struct(a_pod("bad").labels(app="bad")))))
    good = run_at_once(schedule_pod(scheduler, profile, state.pod_info(struct(a_pod("good")))))
    assert bad.status.code is Code.Error
    assert in_short(bad.message) == 'running "P" filter plugin: division by zero'
    assert isinstance(bad.status.error.__cause__.__cause__, ZeroDivisionError)
    assert good.node_name == "a"


@pytest.mark.parametrize(("answer", "text"), ODD_ANSWERS)
def test_pre_enqueue(state, answer, text):
    profile = framework_of(state, fake("First", pre_enqueue=None), fake("P", pre_enqueue=answer))
    status = profile.run_pre_enqueue(profile.handle.pod_info(struct(a_pod())))
    assert (status.code, in_short(status.message), status.plugin) == (Code.Error, text, "P")


def test_later_filters_are_not_called_without_nodes():
    """NodePorts fails without its PreFilter, but is not reached while taints exclude all nodes."""
    off = {"preFilter": {"disabled": [{"name": "NodePorts"}]}}
    config = configuration({"plugins": off})
    tainted = a_node("a").tainted("dedicated", "db").obj()
    verdict = Cluster([tainted], config).explain(a_pod().obj()).to_dict()
    assert verdict["unschedulablePlugins"] == ["TaintToleration"]
    verdict = Cluster([tainted, a_node("b").obj()], config).explain(a_pod().obj()).to_dict()
    assert (
        verdict["error"] == 'running "NodePorts" filter plugin: reading "PreFilterNodePorts" from cycleState: not found'
    )


# -- PreFilter ---------------------------------------------------------------------------------------------------------


def test_plugins_that_restricted_the_nodes_are_rejectors_too(state):
    plugins = [fake("P", pre_filter=only("a")), fake("Q", pre_filter=unschedulable("no"))]
    _, outcome, _ = judged(framework_of(state, *plugins), a_pod())
    assert outcome.diagnosis.message() == "0/2 nodes are available: no."
    assert outcome.diagnosis.unschedulable_plugins == {"P", "Q"}


def test_a_later_error_has_precedence(state):
    profile = framework_of(state, fake("P", pre_filter=unschedulable("no")), fake("Q", pre_filter=BOOM))
    assert in_short(judged(profile, a_pod())[1].error.message) == 'running PreFilter plugin "Q": boom'


@pytest.mark.parametrize(
    ("sets", "feasible"),
    [
        pytest.param([only("a")], ["a"], id="one"),
        pytest.param([only("a", "b"), only("b", "c")], ["b"], id="two"),
        pytest.param([PreFilterResult(), only("a")], ["a"], id="all and some"),
        pytest.param([only("a", "gone")], ["a"], id="names of no node are no matter"),
    ],
)
def test_restricting_nodes(state, sets, feasible):
    asked = []
    plugins = [fake(f"P{i}", pre_filter=answer) for i, answer in enumerate(sets)]
    watcher = fake("Watcher", filter=lambda state, pod, node: asked.append(node.name))
    _, outcome, _ = judged(framework_of(state, *plugins, watcher), a_pod())
    assert [name for name, row in state.table.row_of.items() if outcome.feasible[row]] == feasible
    assert asked == feasible, "only the nodes in question are filtered"


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        pytest.param([only()], "node(s) didn't satisfy plugin P0", id="one"),
        pytest.param(
            [only("a"), only("b")],
            "node(s) didn't satisfy plugin(s) [P0 P1] simultaneously",
            id="two with nothing in common",
        ),
    ],
)
def test_no_node_left(state, sets, message):
    plugins = [fake(f"P{i}", pre_filter=answer) for i, answer in enumerate(sets)]
    _, outcome, _ = judged(framework_of(state, *reversed(plugins)), a_pod())
    diagnosis = outcome.diagnosis
    assert diagnosis.message() == f"0/2 nodes are available: {message}."
    assert diagnosis.absent.code is Code.UnschedulableAndUnresolvable
    assert diagnosis.unschedulable_plugins == {p.name for p in plugins}


def test_excluded_nodes_name_the_plugin(state):
    narrow = fake("P", pre_filter=only("a"))
    _, outcome, _ = judged(framework_of(state, narrow, fake("Q", filter=unschedulable("no"))), a_pod())
    diagnosis = outcome.diagnosis
    assert diagnosis.message() == "0/2 nodes are available: 1 no, 1 node(s) didn't satisfy plugin(s) [P]."
    assert diagnosis.unschedulable_plugins == {"P", "Q"}
    assert diagnosis.status(1).code is Code.UnschedulableAndUnresolvable


# -- Filter, Score -----------------------------------------------------------------------------------------------------


def test_filter_stops_at_the_first_plugin_that_refuses_a_node(state):
    asked = []
    picky = fake("P", filter=lambda state, pod, node: unschedulable("not a") if node.name == "a" else None)
    watcher = fake("Q", filter=lambda state, pod, node: asked.append(node.name))
    judged(framework_of(state, picky, watcher), a_pod())
    assert asked == ["b"]


def test_weights(state):
    """A missing weight counts as 1."""
    plugins = [fake("P", score=lambda state, pod, node: 10 if node.name == "a" else 0), fake("Q", score=5)]
    profile = framework_of(state, *plugins, weights={"P": 7})
    evaluation, outcome, pod = judged(profile, a_pod())
    scored = evaluation.score(pod, outcome.feasible)
    assert scored.ranked.tolist() == scored.totals.tolist() == [75, 5]
    assert {name: part.tolist() for name, part in scored.by_plugin().items()} == {"P": [70, 0], "Q": [5, 5]}


def test_normalize_gets_the_feasible_nodes(state):
    seen = []

    def normalize(state, pod, scores, feasible):
        seen.append(feasible.tolist())
        return np.full_like(scores, 1)

    picky = fake("P", filter=lambda state, pod, node: unschedulable("not a") if node.name == "a" else None)
    evaluation, outcome, pod = judged(framework_of(state, picky, fake("Q", score=1000, normalize=normalize)), a_pod())
    assert evaluation.score(pod, outcome.feasible).ranked[1] == 1
    assert seen == [[False, True]]


def test_a_single_feasible_node_is_taken_without_scoring(state):
    picky = fake("P", filter=lambda state, pod, node: unschedulable("not a") if node.name == "a" else None)
    profile = framework_of(state, picky, fake("Q", pre_score=BOOM, score=BOOM))
    decision = run_at_once(
        schedule_pod(
            SchedulingAlgorithm(state, {"default-scheduler": profile}), profile, state.pod_info(struct(a_pod()))
        )
    )
    assert decision.node_name == "b"


# -- building ----------------------------------------------------------------------------------------------------------


def test_a_plugin_that_cannot_be_built(state):
    class Broken(fake("Broken", filter=None)):
        def __init__(self, args, handle):
            raise ValueError("no such file")

    with pytest.raises(
        PluginInitError,
        match=r'^initializing plugin "Broken": ValueError: no such file \(test_framework.py:\d+ in __init__\)$',
    ):
        framework_of(state, Broken)


def test_points_know_their_plugins_in_order(state):
    profile = framework_of(state, fake("Q", filter=None), fake("P", filter=None, pre_filter=None))
    assert profile.points["filter"] == ("Q", "P")
    assert profile.points["preFilter"] == ("P",)
    assert set(profile.points) == set(EXTENSION_POINTS)


def test_closing_closes_all_plugins_and_reports_failures(state):
    closed = []

    class Stuck(fake("Stuck", filter=None)):
        def close(self):
            raise RuntimeError("still busy")

    class Fine(fake("Fine", filter=None)):
        def close(self):
            closed.append(self.name)

    assert [in_short(text) for text in framework_of(state, Stuck, Fine).close()] == [
        "Stuck failed to close: still busy"
    ]
    assert closed == ["Fine"]


# -- signatures --------------------------------------------------------------------------------------------------------


def signing(name, answer):
    from support.plugins.fake_plugins import answer_of

    class Signing(fake(name, signed=False, filter=None), SignPlugin):
        def sign_pod(self, pod):
            return answer_of(answer, pod)

    Signing.name = name
    return Signing


def annotated(pod):
    return {"note": pod.pod.metadata.annotations.get("note", "")}


@pytest.mark.parametrize(
    ("plugins", "shared"),
    [
        pytest.param([fake("P", filter=None)], {"same", "noted"}, id="by shape: template, labels and controller"),
        pytest.param([signing("P", annotated)], {"same", "labelled"}, id="by template and what is signed"),
        pytest.param([fake("P", filter=None), signing("Q", annotated)], {"same"}, id="by shape and what is signed"),
        pytest.param([signing("P", {})], {"same", "noted", "labelled"}, id="nothing to sign"),
        pytest.param([fake("P", filter=None, signed=False)], set(), id="somebody does not sign"),
        pytest.param([fake("P", score=1, signed=False), signing("Q", {})], set(), id="nor at Score"),
        pytest.param([signing("P", unschedulable("not this one"))], set(), id="refuses to sign"),
        pytest.param([signing("P", BOOM)], set(), id="fails to sign"),
        pytest.param([signing("P", {"what": []})], set(), id="signs what cannot be hashed"),
        pytest.param(
            [fake("P", pre_enqueue=None, signed=False), fake("Q", filter=None)],
            {"same", "noted"},
            id="who does not decide need not sign",
        ),
    ],
)
def test_which_pods_share_results(state, plugins, shared):
    profile = framework_of(state, *plugins)

    def signature(pod):
        return profile.signature(profile.handle.pod_info(struct(pod)))

    first = signature(a_pod("first").labels(app="web"))
    others = {
        "same": a_pod("second").labels(app="web"),
        "noted": a_pod("third").labels(app="web").annotations(note="x"),
        "labelled": a_pod("fourth").labels(app="db"),
        "larger": a_pod("fifth").labels(app="web").requests(cpu="1"),
        "elsewhere": a_pod("sixth", "blue").labels(app="web"),
    }
    found = {name for name, pod in others.items() if first is not None and signature(pod) == first}
    assert found == shared
    # A mapping is used to store results.
    assert {first: 1}


@pytest.mark.parametrize(("answer", "cause"), [(BOOM, str(BOOM)), ({"what": []}, "unhashable type: 'list'")])
def test_a_plugin_that_fails_to_sign_is_logged_once(state, caplog, answer, cause):
    profile = framework_of(state, signing("P", answer))
    for name in ("first", "second"):
        profile.signature(profile.handle.pod_info(struct(a_pod(name))))
    [record] = caplog.records
    assert "A plugin failed to sign a pod, which shares no results" in record.getMessage()
    assert cause in record.getMessage()


def test_the_handle_knows_its_framework(state):
    profile = framework_of(state, fake("P", filter=None))
    assert isinstance(profile.handle.framework, Framework)
    assert profile.handle.framework is profile


def silent(name, answer, *, speaks_of=()):
    """A signer that has nothing to sign for pods of any shape without these labels."""

    class Silent(signing(name, answer)):
        asked = 0

        def ignores(self, shape):
            return not any(label in shape.labels for label in speaks_of)

        def sign_pod(self, pod):
            type(self).asked += 1
            return super().sign_pod(pod)

    return Silent


def test_signers_with_nothing_to_sign_are_not_called(state):
    plugin = silent("P", annotated, speaks_of=("app",))
    profile = framework_of(state, plugin, signing("Q", {}))
    plain, spoken_of = (profile.handle.pod_info(struct(pod)) for pod in (a_pod(), a_pod().labels(app="web")))
    assert profile.signature(plain) == profile.signature(plain)
    assert plugin.asked == 0
    assert profile.signature(spoken_of) != profile.signature(plain)
    assert plugin.asked == 1


def versioned(name, version):
    """A signer that signs an annotation, and declares signatures constant while `version` is unchanged."""

    class Versioned(signing(name, annotated)):
        asked = 0

        def sign_version(self, pod):
            return version()

        def sign_pod(self, pod):
            type(self).asked += 1
            return super().sign_pod(pod)

    return Versioned


def test_signatures_are_cached_per_shape_and_version(state):
    now = [1]
    plugin = versioned("P", lambda: now[0])
    profile = framework_of(state, plugin, versioned("Q", lambda: "always"))
    pods = [profile.handle.pod_info(struct(a_pod().annotations(note=note))) for note in "ab"]
    first = profile.signature(pods[0])
    assert profile.signature(pods[1]) is first
    assert plugin.asked == 1
    now[0] = 2
    assert profile.signature(pods[1]) != first
    assert plugin.asked == 2
    other = profile.handle.pod_info(struct(a_pod("q").requests(cpu=1).annotations(note="a")))
    assert profile.signature(other) != first
    profile.switch_off({"Q"})
    assert profile.signature(pods[0]) != first
    assert plugin.asked == 4


def raising():
    raise RuntimeError("boom")


@pytest.mark.parametrize(
    "plugin",
    [
        pytest.param(lambda: versioned("P", lambda: None), id="it does not say"),
        pytest.param(lambda: versioned("P", raising), id="it fails to say"),
        pytest.param(lambda: own(versioned("P", lambda: 1)), id="it signs in its own way, its base is versioned"),
    ],
)
def test_signers_without_a_version_are_called_for_each_pod(state, plugin):
    profile = framework_of(state, plugin(), versioned("Q", lambda: 1))
    pods = [a_pod().annotations(note=note) for note in "ab"]
    first, second = (profile.signature(profile.handle.pod_info(struct(pod))) for pod in pods)
    assert first != second


def own(base):
    class Own(base):
        def sign_pod(self, pod):
            return annotated(pod)

    return Own


def unsure():
    class Unsure(signing("P", annotated)):
        def ignores(self, shape):
            raise RuntimeError("boom")

    return Unsure


@pytest.mark.parametrize(
    "plugin",
    [
        pytest.param(own(silent("P", {})), id="it signs in its own way, its base is silent"),
        pytest.param(unsure(), id="it cannot say whether it is silent"),
    ],
)
def test_signers_are_called_unless_certainly_silent(state, plugin):
    profile = framework_of(state, plugin)
    pods = [a_pod().annotations(note=note) for note in "ab"]
    first, second = (profile.signature(profile.handle.pod_info(struct(pod))) for pod in pods)
    assert first != second
