"""All tests share one server; each has its own namespace, and deletes the nodes that it created."""

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
        await _delete_leftovers(objects)
    finally:
        await objects.close()
    return name


async def _delete_leftovers(objects):
    """Delete the pods that tests without a scheduler left behind: the next scheduler would schedule them."""
    for left in (await objects.call("GET", "/api/v1/pods"))["items"] or []:
        path = objects.path("pods", left["metadata"]["name"], namespace=left["metadata"]["namespace"])
        await objects.call("DELETE", path, {"gracePeriodSeconds": 0}, ok=(200, 202, 404))
