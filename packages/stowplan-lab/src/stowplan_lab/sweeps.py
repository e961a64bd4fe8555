"""Run many independent simulations in parallel, on local processes or a Dask cluster.

By default on processes of this machine. Dask's client has the same interface, so a cluster of any size is just another
class here, and there is no distributed engine of our own.

A task that raises fails alone. So does one that kills its process: `ProcessPoolExecutor` then breaks as a whole, and
Dask gives up tasks that were on too many workers that died. Either way it is unknown which of the running tasks was the
cause. So each of these is run again alone, and the one that does it again fails. Results do not depend on the worker:
outcomes have the index of their job, by which callers can order them.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ProcessPoolExecutor, wait
from contextlib import AbstractContextManager, ExitStack, contextmanager
from importlib import import_module
from multiprocessing import get_context, parent_process
from typing import Any, Generic, Protocol, TypeVar

from stowplan.kube.structs import PlainStruct
from stowplan.kube.timing.process_tuning import collect_garbage_less_often

__all__ = ["Dask", "Processes", "Workers", "WorkersError"]

NO_DASK = "--dask needs the package distributed: pip install 'stowplan-lab[dask]'"
#: Timeout in seconds to connect to a Dask scheduler.
DASK_TIMEOUT = 10.0


class WorkersError(RuntimeError):
    """There are no workers; says why and what to do."""


class Workers(Protocol):
    """A source of executors. A broken one is replaced by the next."""

    def executor(self) -> AbstractContextManager[Executor]:
        """A new executor, closed at the end of the context."""

    def parallel(self, executor: Executor) -> int:
        """The number of concurrent tasks in one of these executors."""


class Processes:
    """Processes of this machine.

    Examples:
        >>> tune_scenario("week.yaml", folder=Path("tuned"), workers=Processes(4))  # doctest: +SKIP
    """

    def __init__(self, number: int | None = None) -> None:
        """`number` of None: one per core that this process may use."""
        self._number = number or _cores()

    @contextmanager
    def executor(self) -> Iterator[Executor]:
        # Not forked: a forked process with threads may hang.
        pool = ProcessPoolExecutor(self._number, mp_context=get_context("spawn"), initializer=_begin_worker)
        try:
            yield pool
        except (KeyboardInterrupt, GeneratorExit):
            # Results of running tasks are not needed.
            for process in (pool._processes or {}).values():
                process.terminate()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def parallel(self, executor: Executor) -> int:
        return self._number


class Dask:
    """The workers of a Dask cluster, which need the same Python and the same packages.

    When a worker dies, Dask runs its tasks elsewhere, and gives up those that kill several workers
    (`distributed.scheduler.allowed-failures`).

    Examples:
        >>> tune_scenario("week.yaml", folder=Path("tuned"), workers=Dask("tcp://scheduler:8786"))  # doctest: +SKIP
    """

    def __init__(self, address: str) -> None:
        self._address = address

    @contextmanager
    def executor(self) -> Iterator[Executor]:
        try:
            # An optional dependency without type information.
            distributed: Any = import_module("distributed")
        except ImportError as e:
            raise WorkersError(NO_DASK) from e
        try:
            client = distributed.Client(self._address, timeout=DASK_TIMEOUT)
        except (OSError, ValueError) as e:
            raise WorkersError(f"Dask scheduler {self._address}: cannot be reached: {e}") from e
        try:
            # Not `pure`: two calls with the same arguments are two runs.
            yield client.get_executor(pure=False)
        finally:
            client.close()

    def parallel(self, executor: Executor) -> int:
        client: Any = executor._client  # type: ignore[attr-defined]
        # In addition to running tasks, some are in transit.
        threads: int = sum(client.nthreads().values())
        return 2 * max(1, threads)


class ReusedWorkers:
    """Workers whose executor is reused until it breaks; a context manager."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._stack = ExitStack()
        self._executor: Executor | None = None

    def __enter__(self) -> ReusedWorkers:
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    @contextmanager
    def executor(self) -> Iterator[Executor]:
        if self._executor is None or _is_broken(self._executor):
            self._stack.close()
            self._executor = self._stack.enter_context(self._workers.executor())
        try:
            yield self._executor
        except (KeyboardInterrupt, GeneratorExit) as error:
            # The executor must get the exception, so that it does not wait for results that are not needed.
            self._executor = None
            self._stack.__exit__(type(error), error, error.__traceback__)
            raise

    def parallel(self, executor: Executor) -> int:
        return self._workers.parallel(executor)


def _is_broken(executor: Executor) -> bool:
    try:
        executor.submit(int)
    except BrokenExecutor:
        return True
    return False


def _begin_worker() -> None:
    collect_garbage_less_often()
    # Ctrl-C is sent to all processes of a terminal; here it would look like a failed task.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Exit with the parent: a killed parent does not notify its workers, which would wait forever."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


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
