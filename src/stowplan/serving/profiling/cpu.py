"""CPU profiles: a thread samples the others and attributes their CPU time.

The kernel says how much CPU time a thread has used; where the thread is at the end of a period stands for all of the
period. A thread that waits is charged nothing, so the profile shows work and no waiting. The look is at a moment at
which Python can be interrupted: time in long calls into C is charged to the Python line that made the call.

A look needs the interpreter's lock, and an event loop gives that away wherever it waits: left to itself, the sampler
would see nothing but the loop's own wait. So while it samples, the interpreter lets others have the lock much sooner.

Upstream: runtime/pprof's StartCPUProfile, which a timer signal drives.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING

from stowplan.serving.profiling.pprof import Profile, stack_of

if TYPE_CHECKING:
    from collections.abc import Callable

#: Seconds between two looks; Go's are as long.
PERIOD = 0.01
#: Seconds that a look may be late, as `sys.setswitchinterval` takes them.
_LATE = 0.0001


class CpuSampler:
    """Samples from `start` to `stop`; `busy` tells the CPU seconds of a thread by its ident."""

    def __init__(self, *, period: float = PERIOD, busy: Callable[[int], float] | None = None) -> None:
        self._period = period
        self._busy = cpu_seconds if busy is None else busy
        self._profile = Profile(
            ("samples", "count"), ("cpu", "nanoseconds"), period=("cpu", "nanoseconds", int(period * 1e9))
        )
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="profiler", daemon=True)
        self._used: dict[int, float] = {}

    def start(self) -> None:
        self._profile.began = time.time()
        self._switch_interval = sys.getswitchinterval()
        sys.setswitchinterval(_LATE)
        self._thread.start()

    def stop(self) -> Profile:
        """End it, which takes a period at most; what was found."""
        self._stopped.set()
        self._thread.join()
        sys.setswitchinterval(self._switch_interval)
        self._profile.lasted = time.time() - self._profile.began
        return self._profile

    def _run(self) -> None:
        # What was used before does not count.
        self.look()
        while not self._stopped.wait(self._period):
            self.look()

    def look(self) -> None:
        """Charge all threads but our own."""
        own = threading.get_ident()
        # A thread has a frame as long as it lives: its clock is there as well.
        for ident, frame in sys._current_frames().items():
            if ident == own:
                continue
            used = self._busy(ident)
            spent = used - self._used.get(ident, used)
            self._used[ident] = used
            if spent > 0:
                self._profile.add(stack_of(frame), 1, round(spent * 1e9))


def cpu_seconds(ident: int) -> float:
    """CPU time of a thread that lives; where the system cannot tell, time as such."""
    if not hasattr(time, "pthread_getcpuclockid"):
        return time.perf_counter()
    return time.clock_gettime(time.pthread_getcpuclockid(ident))
