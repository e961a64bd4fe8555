"""Plugins that return invalid results fail the attempt, with their name."""

import numpy as np
import pytest

from stowplan.plugins import (
    EnqueueExtensions,
    FilterPlugin,
    PostFilterPlugin,
    PreFilterPlugin,
    ScorePlugin,
    ShapeSigned,
)
from stowplan.scheduler.engine.decision.cycle_steps import run_at_once
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.diagnosis import Diagnosis
from stowplan.scheduler.framework.runtime.profile_plugins import PluginInitError
from stowplan.scheduler.framework.runtime.registry import PluginLoadError, load_plugin
from stowplan.scheduler.framework.status import Code, error
from stowplan.testing import a_node, a_pod
from support.plugins.fake_plugins import fake, framework_of, judged
from support.plugins.raised import in_short
from support.scheduling.worlds import state_of, struct

GARBAGE = {"what": 1}
WANTED = "want a Status or None, got {'what': 1}"
OR_RESULT = WANTED.replace("a Status", "a PreFilterResult, a Status")


@pytest.fixture
def state():
    return state_of([a_node("a"), a_node("b")])


def answering(*kinds, **answers):
    """A plugin of column-level points."""
    methods = {method: lambda self, *args, answer=answer: answer for method, answer in answers.items()}
    return type("P", (*kinds, ShapeSigned), {"name": "P", "__init__": lambda self, args, handle: None, **methods})


@pytest.mark.parametrize(
    ("plugin", "text"),
    [
        pytest.param(fake("P", pre_filter=GARBAGE), f'running PreFilter plugin "P": {OR_RESULT}', id="PreFilter"),
        pytest.param(fake("P", filter=True), 'running "P" filter plugin: want a Status or None, got True', id="node"),
        pytest.param(
            answering(FilterPlugin, filter=GARBAGE),
            "running \"P\" filter plugin: want Rejections, a Status or None, got {'what': 1}",
            id="Filter",
        ),
    ],
)
def test_filtering(state, plugin, text):
    _, outcome, _ = judged(framework_of(state, plugin), a_pod())
    assert (outcome.error.code, in_short(outcome.error.message)) == (Code.Error, text)


@pytest.mark.parametrize(
    ("plugin", "text"),
    [
        pytest.param(fake("P", pre_score=GARBAGE), f'running PreScore plugin "P": {WANTED}', id="PreScore"),
        pytest.param(
            answering(ScorePlugin, score=GARBAGE),
            "running Score plugins: plugin \"P\" failed with: want an array of 2 scores or a Status, got {'what': 1}",
            id="Score",
        ),
        pytest.param(
            answering(ScorePlugin, score=np.zeros(1, np.int64)),
            'running Score plugins: plugin "P" failed with: want an array of 2 scores or a Status, got array([0])',
            id="too few scores",
        ),
        pytest.param(
            fake("P", score=1, normalize=None),
            'running Normalize on Score plugins: plugin "P" failed with: '
            "want an array of 2 scores or a Status, got None",
            id="Normalize",
        ),
    ],
)
def test_scoring(state, plugin, text):
    evaluation, outcome, pod = judged(framework_of(state, plugin), a_pod())
    failed = evaluation.score(pod, outcome.feasible).error
    assert (failed.code, in_short(failed.message)) == (Code.Error, text)


def test_pre_enqueue(state):
    profile = framework_of(state, fake("P", pre_enqueue=GARBAGE))
    status = profile.run_pre_enqueue(profile.handle.pod_info(struct(a_pod())))
    assert (status.code, in_short(status.message), status.plugin) == (Code.Error, WANTED, "P")


def test_post_filter(state):
    plugin = answering(PostFilterPlugin, post_filter=GARBAGE)
    profile, pod = framework_of(state, plugin), state.pod_info(struct(a_pod()))
    diagnosis = Diagnosis(np.ones(2, np.bool_), np.ones(2, np.bool_))
    steps = profile.run_post_filter(profile.post_filter[0], CycleState(), pod, diagnosis, waits=False)
    result = run_at_once(steps)
    assert (
        in_short(result.status.message) == "running PostFilter plugin \"P\": want a PostFilterResult, got {'what': 1}"
    )


@pytest.mark.parametrize(
    ("events", "text"),
    [
        pytest.param(
            lambda self: ["Node"], "want what `on` makes of a resource and an action, got 'Node'", id="no events"
        ),
        pytest.param(lambda self: None, "'NoneType' object is not iterable", id="nothing"),
    ],
)
def test_events(state, events, text):
    base = answering(PreFilterPlugin, pre_filter=None)
    plugin = type("P", (base, EnqueueExtensions), {"events_to_register": events})
    with pytest.raises(PluginInitError) as raised:
        framework_of(state, plugin).registered_events()
    assert in_short(str(raised.value)) == f'registering the events of plugin "P": {text}'


def test_a_module_that_exits_is_an_import_error(tmp_path, monkeypatch):
    (tmp_path / "leaves_when_imported.py").write_text("import sys\nsys.exit(3)\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(PluginLoadError, match="cannot import leaves_when_imported: SystemExit: 3"):
        load_plugin("leaves_when_imported:P")


def test_the_exception_is_kept_as_cause():
    leaving = SystemExit(3)
    assert error(leaving).error.__cause__ is leaving
