"""What a scheduling cycle waits for, as steps.

A decision, a group's trial and its preemption are each one generator. It yields only where it has to wait: for an
extender, for a PostFilter plugin that writes or sleeps, or for its turn to do the next portion of long work. If nothing
has to be waited for, it runs to its end at once. While it waits, other pods may be tried, so it holds no transaction
and no rows, and nothing that it shares with equal pods.

`suspension.suspended_cycles` drives the steps of the pods and groups that are tried; `run_at_once` those of a question.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeVar

from stowplan.scheduler.framework.extender import ClusterChangedError
from stowplan.scheduler.framework.requests import Ask, Done, Outcome, Request, Wait
from stowplan.scheduler.framework.unfinished import UnfinishedError

T = TypeVar("T")

#: Requests to carry out in parallel; a time or objects to wait for; or a pause for other pods.
Needs = tuple[Request | Ask, ...] | Wait | UnfinishedError
#: Resumed with the outcomes, in the order of the requests; with one for a `Wait`, and with one for an
#: `UnfinishedError`, which says whether the plugin may continue.
CycleSteps = Generator[Needs, tuple[Outcome, ...], T]

#: Maximum number of times that a cycle is started because others were faster.
MAX_TRIES = 5
GIVEN_UP = f"given up after {MAX_TRIES} tries: {ClusterChangedError()}"

#: Maximum number of portions of long work if steps cannot wait; they delay other pods.
MAX_PORTIONS = 60


def run_at_once(
    steps: CycleSteps[T], *, ask: Callable[[Ask], Outcome] | None = None, max_portions: int = MAX_PORTIONS
) -> T:
    """Run steps to their end, with portions of long work in a row. Nothing else happens meanwhile.

    `ask` answers an extender in place; None: the steps call none.
    """
    outcomes: tuple[Outcome, ...] | None = None
    portions = 0
    while True:
        try:
            needed = steps.send(outcomes)  # type: ignore[arg-type]
        except StopIteration as end:
            result: T = end.value
            return result
        if isinstance(needed, UnfinishedError):
            outcomes = (Done(portions < max_portions),)
            portions += 1
        else:
            # Plugins that wait for anything but extenders are not effect-free, so no question calls them.
            assert ask is not None
            assert isinstance(needed, tuple)
            outcomes = tuple(ask(question) for question in needed)  # type: ignore[arg-type]
