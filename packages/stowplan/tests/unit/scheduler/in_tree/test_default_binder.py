"""DefaultBinder: its request to the API server, and how it interprets the response."""

import pytest

from stowplan.kube.api.api_errors import conflict
from stowplan.kube.api.port import Unreachable
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.requests import Bind, Done, Refused, Unknown
from stowplan.scheduler.framework.runtime.binding import failure_at
from stowplan.scheduler.framework.status import Code
from stowplan.scheduler.in_tree.default_binder.plugin import DefaultBinder
from stowplan.testing import a_pod


def answer_to(steps, outcome):
    """The plugin's result after its only request ended with this outcome."""
    with pytest.raises(StopIteration) as end:
        steps.send(outcome)
    return end.value.value


def test_the_binding_names_the_pod_by_uid(bench):
    world = bench(DefaultBinder)
    pod = world.pod(a_pod("web", namespace="prod"))
    steps = world.plugin.bind(CycleState(), pod, "n1")
    assert next(steps) == Bind(namespace="prod", name="web", uid=pod.uid, node="n1")
    assert answer_to(steps, Done()) is None


@pytest.mark.parametrize(
    ("outcome", "text"),
    [
        pytest.param(
            Refused(conflict("pods/binding", "", "web", "pod web is already assigned")),
            "pod web is already assigned",
            id="refused",
        ),
        pytest.param(Unknown(Unreachable("the answer was lost")), "the answer was lost", id="unknown"),
    ],
)
def test_a_refusal_is_an_error_with_the_plugins_name(bench, outcome, text):
    world = bench(DefaultBinder)
    pod = world.pod(a_pod("web"))
    failed = failure_at("Bind", "DefaultBinder", world.plugin.bind_answer(outcome), pod, "n1")
    assert (failed.code, failed.plugin) == (Code.Error, "DefaultBinder")
    assert failed.message.startswith('running Bind plugin "DefaultBinder": ')
    assert text in failed.message
