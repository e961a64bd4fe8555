"""The order of handshakes, with connections that write down when they are served."""

import asyncio
import threading

import pytest
from OpenSSL import SSL

from stowplan.net.serving.tls.transport import Handshakes


class Connection:
    def __init__(self, name, served, *, error=None, begin=None):
        self.name, self._served, self._error, self._begin = name, served, error, begin
        self.begun = threading.Event()

    def do_handshake(self):
        self.begun.set()
        if self._begin is not None:
            assert self._begin.wait(20)
        self._served.append(self.name)
        if self._error is not None:
            raise self._error


@pytest.fixture
def crowd():
    """(handshakes, names in the order served, one that keeps the thread until the event is set)."""
    begin, served = threading.Event(), []
    return Handshakes(), served, Connection("first", served, begin=begin), begin


async def test_the_newest_and_the_oldest_take_turns(crowd):
    handshakes, served, first, begin = crowd
    steps = [handshakes.step(first)]
    assert first.begun.wait(20)
    steps += [handshakes.step(Connection(n, served)) for n in range(7)]
    begin.set()
    assert await asyncio.gather(*steps) == [None] * 8
    assert served == ["first", 0, 6, 1, 5, 2, 4, 3]


async def test_cancelled_steps_are_left_out(crowd):
    handshakes, served, first, begin = crowd
    steps = [handshakes.step(first)]
    # Otherwise the thread might begin with one that is to be cancelled.
    assert first.begun.wait(20)
    steps += [handshakes.step(Connection(n, served)) for n in range(4)]
    for cancelled in (2, 3):
        steps[1 + cancelled].cancel()
    # The loop tells the thread's futures in its next turn.
    await asyncio.sleep(0)
    begin.set()
    await asyncio.gather(*steps, return_exceptions=True)
    assert sorted(served, key=str) == [0, 1, "first"]
    # The next one is served: no turn was lost.
    await handshakes.step(Connection("last", served))
    assert served[-1] == "last"


async def test_errors_of_openssl_are_results_without_a_traceback(crowd):
    handshakes, served, _, _ = crowd
    error = SSL.WantReadError()
    assert await handshakes.step(Connection("a", served, error=error)) is error
    assert error.__traceback__ is None


async def test_other_errors_are_raised(crowd):
    handshakes, served, _, _ = crowd
    with pytest.raises(ZeroDivisionError):
        await handshakes.step(Connection("a", served, error=ZeroDivisionError()))
    assert await handshakes.step(Connection("b", served)) is None
