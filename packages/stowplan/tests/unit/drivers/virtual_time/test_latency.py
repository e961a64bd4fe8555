"""Latencies: none, a number, or a callable, for everything or by kind."""

from random import Random

import pytest

from stowplan.drivers.virtual_time.latency import Latency, Uniform
from stowplan.kube.api.types import Pod
from stowplan.scheduler.framework.requests import Bind

BIND = Bind(namespace="default", name="web", uid="", node="n1")


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
