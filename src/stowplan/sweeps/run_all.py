"""Run many independent tasks; a failure affects only its own task.

A run that raises costs itself. So does one that kills its process. `ProcessPoolExecutor` then breaks whole, and Dask
gives up whatever stood too often with workers that died; either way nobody can tell which of those that were under way
did it. So each of these is run again alone, and the one that does it once more is the one. Which worker did a run never
shows: outcomes carry the number of their job, and whoever makes something of them puts them in order.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from stowplan.sweeps.workers import Workers

J = TypeVar("J")
R = TypeVar("R")

DIED = "its worker process died"


@dataclass(frozen=True, slots=True)
class Outcome(Generic[R]):
    """How one run ended: with a result, or with an error."""

    job: int
    result: R | None = None
    error: str = ""


def run_all(workers: Workers, function: Callable[[J], R], jobs: Sequence[J]) -> Iterator[Outcome[R]]:
    """Call the function with each job; outcomes as they come, by the job's index.

    Function, jobs and results are pickled: they must be importable in a process that has imported nothing.
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
    """Do what waits in one executor, as long as it is whole. Runs that lost their worker go to `broke`."""
    with workers.executor() as executor:
        parallel = workers.parallel(executor)
        under_way: dict[Future[R], int] = {}
        broken = False
        try:
            while (waiting or under_way) and not broken:
                while waiting and len(under_way) < parallel:
                    # Taken off only once it is handed over: a broken executor takes nothing.
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
    """Whether it is a worker that is lost; `KilledWorker` is Dask's, which is not imported for that."""
    return isinstance(error, BrokenExecutor) or type(error).__name__ == "KilledWorker"
