"""CPU profiles: a thread samples the others and attributes their CPU time.

The kernel reports the CPU time of a thread; the thread's location at the end of a period represents the whole period. A
waiting thread is charged nothing, so the profile shows work only. Samples are taken where Python can be interrupted:
time in long C calls is charged to the Python line that made the call.

A sample needs the interpreter lock, which an event loop only releases where it waits: without further measures, the
sampler would only see that wait. So the interpreter's switch interval is shortened during sampling.

Upstream: runtime/pprof's StartCPUProfile, which a timer signal drives.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import defaultdict
from typing import TYPE_CHECKING

from stowplan.net.serving.profiling.pprof import encode
from stowplan.net.serving.profiling.stacks import Stack, stack_of

if TYPE_CHECKING:
    from collections.abc import Callable

#: Seconds between two samples, as in Go.
PERIOD = 0.01
#: Maximum delay of a sample in seconds, for `sys.setswitchinterval`.
_LATE = 0.0001


class CpuSampler:
    """Samples from `start` to `stop`; `busy` returns the CPU seconds of a thread by its ident."""

    def __init__(self, *, period: float = PERIOD, busy: Callable[[int], float] | None = None) -> None:
        self._period = period
        self._busy = cpu_seconds if busy is None else busy
        #: Samples and nanoseconds of each stack.
        self._samples: defaultdict[Stack, list[int]] = defaultdict(lambda: [0, 0])
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="profiler", daemon=True)
        self._used: dict[int, float] = {}

    def start(self) -> None:
        self._began = time.time()
        self._switch_interval = sys.getswitchinterval()
        sys.setswitchinterval(_LATE)
        self._thread.start()

    def stop(self) -> bytes:
        """Stop, within a period, and return the profile."""
        self._stopped.set()
        self._thread.join()
        sys.setswitchinterval(self._switch_interval)
        return encode(
            self._samples,
            ("samples", "count"),
            ("cpu", "nanoseconds"),
            period=int(self._period * 1e9),
            began=self._began,
            lasted=time.time() - self._began,
        )

    def _run(self) -> None:
        # Earlier usage does not count.
        self.look()
        while not self._stopped.wait(self._period):
            self.look()

    def look(self) -> None:
        """Charge all threads except for our own."""
        own = threading.get_ident()
        # A thread with a frame is alive, so its clock exists.
        for ident, frame in sys._current_frames().items():
            if ident == own:
                continue
            used = self._busy(ident)
            spent = used - self._used.get(ident, used)
            self._used[ident] = used
            if spent > 0:
                charged = self._samples[stack_of(frame)]
                charged[0] += 1
                charged[1] += round(spent * 1e9)


def cpu_seconds(ident: int) -> float:
    """CPU time of a living thread; where the system does not support that, wall time."""
    if not hasattr(time, "pthread_getcpuclockid"):
        return time.perf_counter()
    return time.clock_gettime(time.pthread_getcpuclockid(ident))
