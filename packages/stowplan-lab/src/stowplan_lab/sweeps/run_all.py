"""Run many independent tasks; a failure affects only its own task.

A task that raises fails alone. So does one that kills its process: `ProcessPoolExecutor` then breaks as a whole, and
Dask gives up tasks that were on too many workers that died. Either way it is unknown which of the running tasks was the
cause. So each of these is run again alone, and the one that does it again fails. Results do not depend on the worker:
outcomes have the index of their job, by which callers can order them.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from typing import TYPE_CHECKING, Generic, TypeVar

from stowplan.kube.structs import PlainStruct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from stowplan_lab.sweeps.workers import Workers

J = TypeVar("J")
R = TypeVar("R")

DIED = "its worker process died"


class Outcome(PlainStruct, Generic[R], frozen=True):
    """The outcome of one task: a result or an error."""

    job: int
    result: R | None = None
    error: str = ""


def run_all(workers: Workers, function: Callable[[J], R], jobs: Sequence[J]) -> Iterator[Outcome[R]]:
    """Call the function with each job; yields outcomes as they complete, with the job's index.

    Function, jobs and results are pickled: they must be importable in a new process.
    """
    waiting = deque(range(len(jobs)))
    suspects: list[int] = []
    while waiting:
        yield from _until_broken(workers, function, jobs, waiting, suspects)
        for job in suspects:
            alone, broke = deque([job]), list[int]()
            yield from _until_broken(workers, function, jobs, alone, broke)
            if broke:
                yield Outcome(job, error=DIED)
        suspects.clear()


def _until_broken(
    workers: Workers, function: Callable[[J], R], jobs: Sequence[J], waiting: deque[int], broke: list[int]
) -> Iterator[Outcome[R]]:
    """Run waiting tasks in one executor until it breaks. Tasks that lost their worker go to `broke`."""
    with workers.executor() as executor:
        parallel = workers.parallel(executor)
        under_way: dict[Future[R], int] = {}
        broken = False
        try:
            while (waiting or under_way) and not broken:
                while waiting and len(under_way) < parallel:
                    # Removed only after submission: a broken executor accepts nothing.
                    under_way[executor.submit(function, jobs[waiting[0]])] = waiting[0]
                    waiting.popleft()
                done, _ = wait(under_way, return_when=FIRST_COMPLETED)
                for future in done:
                    job = under_way.pop(future)
                    error = future.exception()
                    if isinstance(error, BrokenExecutor):
                        broken = True
                    if _died(error):
                        broke.append(job)
                    elif error is not None:
                        yield Outcome(job, error=str(error) or type(error).__name__)
                    else:
                        yield Outcome(job, future.result())
        except BrokenExecutor:
            pass
        finally:
            broke += under_way.values()
            for future in under_way:
                future.cancel()
    broke.sort()


def _died(error: BaseException | None) -> bool:
    """Whether a worker was lost; `KilledWorker` is Dask's, which is not imported for that."""
    return isinstance(error, BrokenExecutor) or type(error).__name__ == "KilledWorker"
