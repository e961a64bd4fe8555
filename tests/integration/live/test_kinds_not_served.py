"""Clusters older than the scheduler, which may be upgraded while it runs."""

import logging

import pytest

from stowplan.kube.api import types as t
from stowplan.kube.api.api_errors import Forbidden, not_found
from support.api.manifests import node, pod
from support.live.http_scheduler import scheduled
from support.scheduling.attempts import asking
from support.scheduling.preempting import nodes, pods

DEVICES = (t.ResourceClaim, t.ResourceSlice, t.DeviceClass)
CLAIMS = "no new claims to deallocate"


class Older:
    """An Api whose server lacks some kinds until `hidden` is emptied."""

    def __init__(self, api, hidden, error):
        self._api = api
        self.hidden = set(hidden)
        self._error = error

    def __getattr__(self, name):
        return getattr(self._api, name)

    async def serves(self, kind):
        return kind not in self.hidden

    async def list(self, kind, **options):
        if kind in self.hidden:
            raise self._error
        return await self._api.list(kind, **options)


def older(*kinds, error=None):
    missing = error or not_found("resourceclaims", "resource.k8s.io", "")
    return lambda api: Older(api, kinds, missing)


def enabled(c, plugin):
    framework = c.scheduler.frameworks["default-scheduler"]
    points = (framework.pre_enqueue, framework.pre_filter, framework.filter, framework.post_filter, framework.reserve)
    return {plugin in {one.name for one in point} for point in points}


def logged(caplog, words):
    return [record.getMessage() for record in caplog.records if words in record.getMessage()]


@pytest.mark.parametrize(
    "error",
    [pytest.param(None, id="not found"), pytest.param(Forbidden("unknown to the authorizer, too"), id="forbidden")],
)
async def test_an_api_group_that_is_served_later(api_server, namespace, caplog, error):
    caplog.set_level(logging.INFO)
    before = [*nodes(node("n1")), *pods(pod())]
    wrap = older(*DEVICES, error=error)
    async with scheduled(api_server, namespace, before=before, wrap=wrap) as c:
        # No plugin is waiting for it.
        assert await c.node_of("web") == "n1"
        assert c.scheduler.informers.missing == set(DEVICES)
        assert enabled(c, "DynamicResources") == {False}
        assert len(logged(caplog, "DynamicResources is switched off")) == 1
        await c.pods(asking(pod("large"), cpu="64"))
        assert CLAIMS not in (await c.condition("large"))["message"]

        # Discovery is repeated once per minute.
        c.api.hidden.clear()
        await c.advance(59.0)
        assert c.scheduler.informers.missing == set(DEVICES)
        await c.advance(1.0)
        await c.until(lambda: not c.scheduler.informers.missing)
        await c.settle()
        assert enabled(c, "DynamicResources") == {True}
        assert len(logged(caplog, "DynamicResources is switched on")) == 1
        await c.pods(asking(pod("larger"), cpu="65"))
        assert CLAIMS in (await c.condition("larger"))["message"]
