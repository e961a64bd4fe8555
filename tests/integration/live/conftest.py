"""Each test has a namespace of its own on a server that all share; nodes are taken away again by whoever made them."""

import re
from itertools import count

import pytest

from support.api import manifests
from support.live.http_scheduler import PATHS, Objects

_NUMBERS = count(1)


@pytest.fixture
async def namespace(api_server, request):
    name = f"{re.sub('[^a-z0-9]+', '-', request.node.name.lower()).strip('-')[:40].strip('-')}-{next(_NUMBERS)}"
    objects = Objects(api_server.kubeconfig, name)
    try:
        await objects.call("POST", PATHS["namespaces"], manifests.namespace(name))
        await _clear(objects)
    finally:
        await objects.close()
    return name


async def _clear(objects):
    """Take away what tests without a scheduler have left: it would be scheduled, too."""
    for left in (await objects.call("GET", "/api/v1/pods"))["items"] or []:
        path = objects.path("pods", left["metadata"]["name"], namespace=left["metadata"]["namespace"])
        await objects.call("DELETE", path, {"gracePeriodSeconds": 0}, ok=(200, 202, 404))
