"""Latencies: none, a number, or a callable, for everything or by kind."""

from random import Random

import pytest

from stowplan.drivers.virtual_time.latency import NO_LATENCY, Latency, Uniform
from stowplan.kube.api.types import Node, Pod
from stowplan.scheduler.framework.requests import Bind, Patch

BIND = Bind(namespace="default", name="web", uid="", node="n1")
PATCH = Patch(kind=Pod, namespace="default", name="web", body={})


def test_no_latency_by_default():
    assert NO_LATENCY.instant
    found = [NO_LATENCY.request(BIND), NO_LATENCY.answer(BIND), NO_LATENCY.watch(Pod), NO_LATENCY.deletion(Pod())]
    assert found == [0.0] * 4


def test_one_number_for_everything():
    latency = Latency(requests=0.25, watches=0.5)
    assert (latency.request(BIND), latency.request(PATCH), latency.watch(Node)) == (0.25, 0.25, 0.5)
    assert not latency.instant


def test_a_table_by_kind():
    latency = Latency(requests={Bind: 0.25}, answers={Patch: 1.0}, watches={Pod: 2.0})
    assert (latency.request(BIND), latency.request(PATCH)) == (0.25, 0.0)
    assert (latency.answer(BIND), latency.answer(PATCH)) == (0.0, 1.0)
    assert (latency.watch(Pod), latency.watch(Node)) == (2.0, 0.0)


def test_arguments_of_callables_and_negative_results():
    about = []
    latency = Latency(requests=lambda action: about.append(action) or 1.0, deletions=lambda pod: -1.0)
    assert (latency.request(BIND), about) == (1.0, [BIND])
    assert latency.deletion(Pod()) == 0.0


@pytest.mark.parametrize("table", [{"watches": 1.0}, {"deletions": 30.0}])
def test_requests_are_instant_by_default(table):
    assert Latency(**table).instant


def test_randomness_comes_from_the_caller():
    drawn = [Latency(requests=Uniform(1.0, 3.0, random=Random(7).random)).request(BIND) for _ in range(2)]
    assert drawn[0] == drawn[1]
    assert 1.0 <= drawn[0] < 3.0
