"""The order of requests by priority lane: the rule itself, and coroutines that wait for their turn."""

import asyncio
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.net.client.client_errors import RequestDropped
from stowplan.net.client.http.lanes import FAIR_TURN, Lanes, RateLimitedLanes
from support.api.clients import VirtualTime

LANES = ("bind", "default", "status", "event")
MANY = 10_000


def lanes_of(*waiting, qps=10.0, burst=1, **options):
    """Lanes with an empty bucket and these waiting requests, each finished as soon as it is let go."""
    lanes = Lanes(qps=qps, burst=burst, now=0.0, **options)
    for _ in range(burst):
        lanes.enter("default")
    for ticket in lanes.grant(0.0):
        lanes.leave(ticket)
    for lane in waiting:
        lanes.enter(lane)
    return lanes


#: Enough time for one token; the bucket holds one, so not for more.
TOKEN = 0.15


def order(lanes, turns, *, after=0):
    """The lanes of the next turns, one token at a time."""
    result = []
    for turn in range(after + 1, after + turns + 1):
        for ticket in lanes.grant(turn * TOKEN):
            result.append(ticket.lane)
            lanes.leave(ticket)
    return result


# --- order


def test_lanes_are_served_in_order():
    assert order(lanes_of("event", "status", "default", "bind"), 4) == ["bind", "default", "status", "event"]


def test_within_a_lane_the_first_comes_first():
    lanes = Lanes(qps=-1, burst=0, now=0.0, in_flight=1)
    tickets = [lanes.enter("bind") for _ in range(3)]
    for ticket in tickets:
        assert lanes.grant(0.0) == [ticket]
        lanes.leave(ticket)


def test_every_tenth_turn_goes_to_a_later_lane():
    turns = order(lanes_of(*["bind"] * 40, *["default"] * 2, "status"), 40)
    assert [turn for turn, lane in enumerate(turns, 1) if lane != "bind"] == [FAIR_TURN, 2 * FAIR_TURN, 3 * FAIR_TURN]
    assert [lane for lane in turns if lane != "bind"] == ["default", "default", "status"]


def test_events_get_these_turns_if_no_bind_waits():
    turns = order(lanes_of(*["default"] * 20, "event"), 21)
    assert turns.index("event") == FAIR_TURN - 1


def test_uncontended_turns_do_not_count():
    lanes = lanes_of(*["bind"] * 30)
    assert order(lanes, 15) == ["bind"] * 15
    lanes.enter("default")
    assert order(lanes, 15, after=15).index("default") == FAIR_TURN - 1


@given(
    st.lists(st.sampled_from(LANES), max_size=60),
    st.lists(st.tuples(st.sampled_from(LANES), st.booleans()), max_size=60),
)
def test_a_bind_never_waits_behind_an_event(waiting, arrivals):
    lanes = lanes_of(*waiting)
    now = 0.0
    for lane, enters in arrivals:
        if enters:
            lanes.enter(lane)
        now += TOKEN
        binds = lanes.waiting["bind"]
        for ticket in lanes.grant(now):
            assert ticket.lane != "event" or binds == 0
            lanes.leave(ticket)


@pytest.mark.parametrize("patient", ["bind", "default", "status"])
@given(flood=st.lists(st.lists(st.sampled_from(LANES), min_size=1, max_size=4), min_size=60, max_size=60))
def test_no_lane_starves(patient, flood):
    lanes = lanes_of(*["bind"] * 20)
    ticket = lanes.enter(patient)
    # 20 binds are ahead of a bind; other requests also wait for earlier ones in the two later lanes.
    for turn, arrivals in enumerate(flood, 1):
        for lane in arrivals:
            lanes.enter(lane)
        for granted in lanes.grant(turn * TOKEN):
            lanes.leave(granted)
    assert ticket.state == "done"


# --- rate


@given(
    qps=st.sampled_from([0.5, 3.0, 50.0]),
    burst=st.integers(1, 20),
    steps=st.lists(st.tuples(st.sampled_from(LANES), st.floats(0.0, 2.0), st.integers(0, 5)), max_size=60),
)
def test_no_window_exceeds_burst_and_rate(qps, burst, steps):
    lanes = Lanes(qps=qps, burst=burst, now=0.0, in_flight=MANY)
    now, granted = 0.0, []
    for lane, wait, entering in steps:
        now += wait
        for _ in range(entering):
            lanes.enter(lane)
        granted += [now] * len(lanes.grant(now))
    for first, start in enumerate(granted):
        for last in range(first, len(granted)):
            assert last - first + 1 <= burst + qps * (granted[last] - start) + 1e-6


@given(qps=st.sampled_from([0.5, 3.0, 50.0]), burst=st.integers(1, 20), waiting=st.integers(1, 40))
def test_no_token_is_wasted_while_requests_wait(qps, burst, waiting):
    lanes = Lanes(qps=qps, burst=burst, now=0.0, in_flight=MANY)
    for _ in range(waiting):
        lanes.enter("default")
    now, granted = 0.0, len(lanes.grant(0.0))
    assert granted == min(burst, waiting)
    while granted < waiting:
        now += lanes.seconds_to_next(now)
        granted += len(lanes.grant(now))
        assert granted >= min(waiting, int(burst + qps * now - 1e-4))
    assert lanes.seconds_to_next(now) is None


@pytest.mark.parametrize(
    ("qps", "burst", "at_once"),
    [
        pytest.param(50, 100, 100, id="upstream's default"),
        pytest.param(0, 0, 10, id="zeros are client-go's default"),
        pytest.param(-1, 1, 500, id="unlimited"),
    ],
)
def test_the_configuration_decides(qps, burst, at_once):
    lanes = Lanes(qps=qps, burst=burst, now=0.0, in_flight=MANY)
    for _ in range(500):
        lanes.enter("default")
    assert len(lanes.grant(0.0)) == at_once


def test_a_clock_that_goes_backwards_gives_no_tokens():
    lanes = lanes_of("default")
    assert lanes.grant(-5.0) == []
    assert lanes.grant(0.05) == []
    assert len(lanes.grant(0.1)) == 1


# -- limits


def test_events_beyond_the_queue_are_dropped_and_counted():
    lanes = Lanes(qps=1, burst=1, now=0.0, event_queue=3)
    for _ in range(3):
        lanes.enter("event")
    for _ in range(2):
        with pytest.raises(RequestDropped, match="3 events wait"):
            lanes.enter("event")
    assert lanes.dropped == 2
    lanes.enter("default")
    assert lanes.waiting == {"bind": 0, "default": 1, "status": 0, "event": 3}


def test_requests_in_flight_are_limited_and_events_use_at_most_half():
    lanes = Lanes(qps=-1, burst=0, now=0.0, in_flight=4)
    for _ in range(6):
        lanes.enter("event")
    flying = lanes.grant(0.0)
    assert [ticket.lane for ticket in flying] == ["event"] * 2
    for _ in range(3):
        lanes.enter("bind")
    assert [ticket.lane for ticket in lanes.grant(0.0)] == ["bind"] * 2
    assert lanes.in_flight == 4
    lanes.leave(flying[0])
    assert [ticket.lane for ticket in lanes.grant(0.0)] == ["bind"]


def test_leaving_releases_the_slot_once():
    lanes = Lanes(qps=-1, burst=0, now=0.0, in_flight=1)
    first, second, third = (lanes.enter("default") for _ in range(3))
    assert lanes.grant(0.0) == [first]
    lanes.leave(second)
    lanes.leave(first)
    lanes.leave(first)
    assert lanes.in_flight == 0
    assert lanes.grant(0.0) == [third]


# --- coroutines


async def test_turns_are_waited_for():
    time = VirtualTime()
    turns = RateLimitedLanes(Lanes(qps=10, burst=1, now=0.0), clock=time.clock, sleep=time.sleep)
    done = []

    async def request(lane):
        async with turns.turn(lane):
            done.append(lane)

    await asyncio.gather(*(request(lane) for lane in ("default", "event", "status", "bind")))
    await turns.close()
    assert done == ["default", "bind", "status", "event"]
    assert time.slept == pytest.approx([0.1] * 3, abs=1e-4)


async def test_no_request_is_stuck_when_sleeps_end_early():
    """A token may become available between two readings of the clock; a waiter has to be woken all the same."""
    now = 0.0

    def clock():
        nonlocal now
        now += 0.0001
        return now

    async def sleep(seconds):
        nonlocal now
        # Like event loops that round to milliseconds.
        now += int(seconds * 1000) / 1000
        await asyncio.sleep(0)

    turns = RateLimitedLanes(Lanes(qps=1000, burst=1, now=0.0), clock=clock, sleep=sleep)
    done = []

    async def request(number):
        async with turns.turn("default"):
            done.append(number)

    requests = [asyncio.create_task(request(number)) for number in range(200)]
    for _ in range(50_000):
        await asyncio.sleep(0)
        if len(done) == 200:
            break
    assert len(done) == 200
    await asyncio.gather(*requests)
    await turns.close()


async def test_closing_a_lane_cancels_its_requests_only():
    turns = RateLimitedLanes(Lanes(qps=0.001, burst=2, now=0.0, in_flight=3), clock=lambda: 0.0, sleep=asyncio.sleep)
    release = asyncio.Event()
    sent = []

    async def request(lane):
        async with turns.turn(lane):
            sent.append(lane)
            await release.wait()

    tasks = [asyncio.create_task(request(lane)) for lane in ("bind", "bind", "bind", "event", "status", "bind")]
    await asyncio.sleep(0)
    assert sent == ["bind", "bind"]
    turns.give_up("bind")
    for _ in range(5):
        await asyncio.sleep(0)
    assert [task.cancelled() for task in tasks] == [False, False, True, False, False, True]
    release.set()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert sorted(sent) == ["bind", "bind", "event", "status"]
    assert turns.lanes.in_flight == 0
    await turns.close()


async def test_a_cancelled_request_frees_its_place():
    turns = RateLimitedLanes(Lanes(qps=-1, burst=0, now=0.0, in_flight=1), clock=lambda: 0.0, sleep=asyncio.sleep)
    release = asyncio.Event()
    done = []

    async def request(name):
        async with turns.turn("default"):
            await release.wait()
            done.append(name)

    tasks = [asyncio.create_task(request(name)) for name in ("flying", "waiting", "last")]
    await asyncio.sleep(0)
    tasks[1].cancel()
    tasks[0].cancel()
    await asyncio.sleep(0)
    release.set()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert done == ["last"]
    assert turns.lanes.in_flight == 0
    await turns.close()


async def test_a_request_cancelled_at_its_turn_returns_the_turn():
    turns = RateLimitedLanes(Lanes(qps=-1, burst=0, now=0.0, in_flight=1), clock=lambda: 0.0, sleep=asyncio.sleep)
    leave = asyncio.Event()

    async def request():
        async with turns.turn("default"):
            await leave.wait()

    first, second = (asyncio.create_task(request()) for _ in range(2))
    await asyncio.sleep(0)
    leave.set()
    await first
    second.cancel()
    with suppress(asyncio.CancelledError):
        await second
    assert turns.lanes.in_flight == 0
    await turns.close()


async def test_closing_ends_the_wait_for_tokens():
    turns = RateLimitedLanes(Lanes(qps=0.001, burst=1, now=0.0), clock=lambda: 0.0, sleep=asyncio.sleep)

    async def request():
        async with turns.turn("default"):
            pass

    await request()
    before = asyncio.all_tasks()
    waiting = asyncio.create_task(request())
    await asyncio.sleep(0)
    assert len(asyncio.all_tasks() - before) == 2, "waiting requests, and the wait for the token"
    await turns.close()
    assert asyncio.all_tasks() - before == {waiting}
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert turns.lanes.waiting["default"] == 0
