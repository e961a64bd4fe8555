"""Delays after failures."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.kube.timing.backoff import WATCHING, Backoff, BackoffPolicy


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.mark.parametrize(
    ("chance", "waits"),
    [
        pytest.param(0.0, [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0], id="least"),
        pytest.param(0.999999, [1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 60.0, 60.0], id="most"),
    ],
)
def test_delays_of_watches_are_upstreams(chance, waits):
    backoff = Backoff(WATCHING, clock=Clock(), random=lambda: chance)
    assert [backoff.next() for _ in waits] == pytest.approx(waits, rel=1e-5)


@pytest.mark.parametrize(("well", "wait"), [(120.0, 3.2), (120.1, 0.8)])
def test_two_minutes_without_a_failure_reset_it(well, wait):
    clock = Clock()
    backoff = Backoff(WATCHING, clock=clock, random=lambda: 0.0)
    backoff.next()
    backoff.next()
    clock.now += well
    assert backoff.next() == pytest.approx(wait)


def test_reset():
    backoff = Backoff(WATCHING, clock=Clock(), random=lambda: 0.0)
    backoff.next()
    backoff.next()
    backoff.reset()
    assert [backoff.next(), backoff.next()] == pytest.approx([0.8, 1.6])


@given(st.lists(st.floats(0.0, 0.999), min_size=1, max_size=30))
def test_delays_stay_within_their_bounds(chances):
    policy = BackoffPolicy(initial=0.1, cap=5.0, factor=3.0, jitter=0.5)
    chance = iter(chances)
    backoff = Backoff(policy, clock=Clock(), random=lambda: next(chance))
    for number in range(len(chances)):
        base = min(0.1 * 3.0**number, 5.0)
        assert base <= backoff.next() <= base * 1.5 + 1e-9
