"""DefaultBinder: what it asks of the API, and that it says so when there is none."""

import asyncio
from types import SimpleNamespace

from stowplan.api.api_errors import conflict
from stowplan.framework.binding import run_bind
from stowplan.framework.cycle_state import CycleState
from stowplan.framework.status import Code
from stowplan.in_tree.default_binder.plugin import DefaultBinder
from stowplan.testing import a_pod


class _Api:
    def __init__(self, refusal=None):
        self.bound = []
        self.refusal = refusal

    async def bind(self, **asked):
        self.bound.append(asked)
        if self.refusal is not None:
            raise self.refusal


def test_the_binding_names_the_pod_by_uid(bench):
    world = bench(DefaultBinder)
    world.plugin.handle.api = api = _Api()
    pod = world.pod(a_pod("web", namespace="prod"))
    assert asyncio.run(world.plugin.bind(CycleState(), pod, "n1")) is None
    assert api.bound == [{"namespace": "prod", "name": "web", "uid": pod.uid, "node": "n1"}]


def test_a_refusal_is_an_error_with_the_plugins_name(bench):
    world = bench(DefaultBinder)
    world.plugin.handle.api = _Api(conflict("pods/binding", "", "web", "pod web is already assigned"))
    answer = asyncio.run(
        run_bind(SimpleNamespace(bind=(world.plugin,), metrics=None), CycleState(), world.pod(a_pod("web")), "n1")
    )
    assert answer.code == Code.Error
    assert answer.message.startswith('running Bind plugin "DefaultBinder": ')
    assert "pod web is already assigned" in answer.message


def test_without_an_api_it_fails(bench):
    world = bench(DefaultBinder)
    status = asyncio.run(world.plugin.bind(CycleState(), world.pod(a_pod()), "n1"))
    assert (status.code, status.message) == (Code.Error, "this scheduler has no API to bind through")
