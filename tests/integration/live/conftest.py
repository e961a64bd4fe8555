"""Each test has a namespace of its own on a server that all share; nodes are taken away again by whoever made them."""

import re
from itertools import count

import pytest

import manifests
from scheduled import PATHS, Objects

_NUMBERS = count(1)


@pytest.fixture
async def namespace(api_server, request):
    name = f"{re.sub('[^a-z0-9]+', '-', request.node.name.lower()).strip('-')[:40].strip('-')}-{next(_NUMBERS)}"
    objects = Objects(api_server.kubeconfig, name)
    try:
        await objects.call("POST", PATHS["namespaces"], manifests.namespace(name))
    finally:
        await objects.close()
    return name
