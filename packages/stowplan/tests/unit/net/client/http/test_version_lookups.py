"""Which version of a kind is read: the number of discovery requests, and sharing their responses."""

import asyncio
import json

import pytest

from stowplan.kube.api.api_errors import ServiceUnavailable
from stowplan.kube.api.resources import ApiResource
from stowplan.net.client.http.discovery import Discovery
from stowplan.net.client.http.responses import Answer

KINDS = [
    ApiResource("resource.k8s.io", "", plural, namespaced=False, versions=("v1", "v1beta2"))
    for plural in ("deviceclasses", "resourceclaims", "resourceslices")
]
V1, BETA = "/apis/resource.k8s.io/v1", "/apis/resource.k8s.io/v1beta2"


class Asked:
    """A transport whose responses arrive when a test says so."""

    def __init__(self):
        self.paths = []
        self.given_up = []
        self.answers = asyncio.Event()
        self.code = {V1: 200, BETA: 200}

    async def send(self, request):
        self.paths.append(request.path)
        try:
            await self.answers.wait()
        except asyncio.CancelledError:
            self.given_up.append(request.path)
            raise
        names = [{"name": kind.plural} for kind in KINDS]
        return Answer(self.code[request.path], {}, json.dumps({"resources": names}).encode())

    def error_of(self, answer, subject):
        return ServiceUnavailable("not now")


@pytest.fixture
def asked():
    return Asked()


@pytest.fixture
def discovery(asked):
    return Discovery(asked, clock=lambda: 0.0)


async def asking(discovery, kinds=KINDS):
    tasks = [asyncio.create_task(discovery.version(kind)) for kind in kinds]
    await turns()
    return tasks


async def turns():
    for _ in range(10):
        await asyncio.sleep(0)


async def test_kinds_of_one_group_share_a_request(asked, discovery):
    tasks = await asking(discovery)
    asked.answers.set()
    assert await asyncio.gather(*tasks) == ["v1"] * 3
    assert asked.paths == [V1]


async def test_a_response_is_shared_only_while_it_is_awaited(asked, discovery):
    asked.answers.set()
    for kind in KINDS:
        await discovery.version(kind)
    assert asked.paths == [V1] * 3


async def test_a_cancelled_waiter_does_not_cancel_the_others(asked, discovery):
    first, *others = await asking(discovery)
    first.cancel()
    await turns()
    assert first.cancelled()
    assert not asked.given_up
    asked.answers.set()
    assert await asyncio.gather(*others) == ["v1"] * 2
    assert asked.paths == [V1]


async def test_an_abandoned_request_is_cancelled_and_sent_again_later(asked, discovery):
    for task in await asking(discovery):
        task.cancel()
    await turns()
    assert asked.given_up == [V1]
    tasks = await asking(discovery)
    asked.answers.set()
    assert await asyncio.gather(*tasks) == ["v1"] * 3
    assert asked.paths == [V1] * 2


async def test_a_failure_is_shared_and_the_next_caller_retries(asked, discovery):
    asked.code[V1] = 503
    tasks = await asking(discovery)
    asked.answers.set()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(one) for one in found] == [ServiceUnavailable] * 3
    asked.code[V1] = 200
    assert await discovery.version(KINDS[0]) == "v1"
    assert asked.paths == [V1] * 2
