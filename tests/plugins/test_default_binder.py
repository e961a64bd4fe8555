"""DefaultBinder: what it writes, and that it says so when it cannot."""

from stowplan.framework.cycle_state import CycleState
from stowplan.framework.status import Code
from stowplan.plugins.default_binder import DefaultBinder, binding
from stowplan.testing import a_pod


def test_the_binding_names_the_pod_by_uid(bench):
    pod = bench(DefaultBinder).pod(a_pod("web", namespace="prod"))
    assert binding(pod.pod, "n1") == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"namespace": "prod", "name": "web", "uid": pod.uid},
        "target": {"kind": "Node", "name": "n1"},
    }


def test_without_an_api_it_fails(bench):
    world = bench(DefaultBinder)
    attempt = world.plugin.bind(CycleState(), world.pod(a_pod()), "n1")
    try:
        attempt.send(None)
    except StopIteration as done:
        status = done.value
    assert (status.code, status.message) == (Code.Error, "this scheduler has no API to bind through")
