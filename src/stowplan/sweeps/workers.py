"""Executors for sweeps: processes, or Dask.

Processes of this machine by default. Where that is not enough there are engines for it; Dask's client offers the same
interface, so a cluster of any size is one more class here and no engine of our own.
"""

from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from importlib import import_module
from multiprocessing import get_context, parent_process
from typing import TYPE_CHECKING, Any, Protocol

from stowplan.timing.garbage import collect_seldom

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

NO_DASK = "--dask needs the package distributed: pip install 'stowplan[dask]'"
#: Seconds until a Dask scheduler that does not answer is given up.
DASK_TIMEOUT = 10.0


class WorkersError(RuntimeError):
    """There is nobody to run anything; says why and what to do."""


class Workers(Protocol):
    """A source of executors. When one breaks, the next takes its place."""

    def executor(self) -> AbstractContextManager[Executor]: ...

    def parallel(self, executor: Executor) -> int:
        """How many runs go on at a time in an executor of these."""


class Processes:
    """Processes of this machine."""

    def __init__(self, number: int | None = None) -> None:
        """`number` None: one per core that this process may use."""
        self._number = number or _cores()

    @contextmanager
    def executor(self) -> Iterator[Executor]:
        # Not forked: a copy of a process that has threads may hang.
        pool = ProcessPoolExecutor(self._number, mp_context=get_context("spawn"), initializer=_begin_worker)
        try:
            yield pool
        except (KeyboardInterrupt, GeneratorExit):
            # Nobody waits for what they are at.
            for process in (pool._processes or {}).values():
                process.terminate()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def parallel(self, executor: Executor) -> int:
        return self._number


class Dask:
    """The workers of a Dask cluster, which need the same Python and the same packages.

    When a worker dies, Dask has its runs done elsewhere, and gives up those that kill one worker after the other
    (`distributed.scheduler.allowed-failures`).
    """

    def __init__(self, address: str) -> None:
        self._address = address

    @contextmanager
    def executor(self) -> Iterator[Executor]:
        try:
            # An extra that need not be there, and has no types.
            distributed: Any = import_module("distributed")
        except ImportError as e:
            raise WorkersError(NO_DASK) from e
        try:
            client = distributed.Client(self._address, timeout=DASK_TIMEOUT)
        except (OSError, ValueError) as e:
            raise WorkersError(f"Dask scheduler {self._address}: cannot be reached: {e}") from e
        try:
            # Not `pure`: two runs with the same arguments are two runs.
            yield client.get_executor(pure=False)
        finally:
            client.close()

    def parallel(self, executor: Executor) -> int:
        client: Any = executor._client  # type: ignore[attr-defined]
        # Beside those that run, some that are on their way.
        threads: int = sum(client.nthreads().values())
        return 2 * max(1, threads)


class Kept:
    """Workers whose executor is kept for the next runs until it breaks: to be used as a context."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._stack = ExitStack()
        self._executor: Executor | None = None

    def __enter__(self) -> Kept:
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
            # Whoever has the executor must know how it ends, so that it does not wait for what nobody wants.
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
    collect_seldom()
    # Ctrl-C goes to all processes of a terminal; here it would look like a run that failed.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A parent that is killed tells its workers nothing, and they would wait for ever."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
