"""Runs tests on mutants: one process collects the tests once, and forks for each mutant. Linux only.

The fork replaces the function's code object in place, so that whoever took a reference earlier calls the mutant, too.
What a function did while modules were imported stays as it was.

First a fork runs all tests with a probe in each function of the sample: which tests run it, and for how long. A mutant
meets the tests that passed then and run its function: those in folders named like the function's package first, then
the cheap ones, as many as fit into a budget of CPU time. The first failure ends it. A fork without the mutant then
runs the same tests, up to that one: if it fails, too, that test is not believed any more and the mutant runs again.
"""

import ast
import builtins
import contextlib
import gc
import importlib
import io
import itertools
import json
import os
import resource
import select
import signal
import time
from collections import defaultdict
from pathlib import Path
from types import FunctionType

import pytest

#: Seconds of CPU time that a test may take beyond twenty times what it takes without a mutant.
MORE_CPU = 1
#: Seconds without a report in which no thread of a fork is ready to run: it waits for what never comes.
IDLE = 20
#: Bytes that a fork may allocate beyond what its parent has.
MORE_MEMORY = 8 << 30
_PROBE = "__function_of_sample_runs__"


def with_tests(work, args, scratch):
    """Collects tests as pytest does with these arguments, and calls `work` with them. What it returns is a problem."""
    os.environ.setdefault("STOWPLAN_EXAMPLES", "0.1")
    tests = Tests(work)
    options = ["-p", "no:cacheprovider", "-p", "no:xdist", "--basetemp", str(scratch), *args]
    with contextlib.redirect_stdout(io.StringIO()) as output:
        status = pytest.main(options, plugins=[tests])
    if status != pytest.ExitCode.OK:
        raise SystemExit(tests.problem or output.getvalue())


class Tests:
    """A plugin of pytest: the collected tests, and what is known of those that run functions of the sample."""

    def __init__(self, work):
        self._work = work
        self.problem = None
        self._items = {}
        self._failures = []
        #: Test -> its seconds of CPU time, and the digests of the functions it runs.
        self._seconds = {}
        self._digests = {}
        self._distrusted = set()

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self):
        """Examples are the same in each run, and failing ones are not made smaller."""
        from hypothesis import Phase, settings  # earlier, its plugin of pytest would warn

        phases = (Phase.explicit, Phase.generate)
        settings.register_profile("mutants", settings(), derandomize=True, database=None, phases=phases)
        settings.load_profile("mutants")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session):
        from hypothesis import given, strategies

        # Hypothesis parses our sources at its first use: seconds, which each fork would take.
        given(strategies.integers())(lambda number: None)()
        self._items = {item.nodeid: item for item in session.items}
        self.problem = "some tests cannot be collected" if session.testsfailed else self._work(self)
        if self.problem:
            pytest.exit(self.problem, returncode=1)
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report):
        if report.failed:
            self._failures.append(report.nodeid)

    def read_map(self, file):
        for line in map(json.loads, file.read_text(encoding="utf-8").splitlines()):
            self._seconds[line["test"]] = line["cpu"]
            self._digests[line["test"]] = line["runs"]

    def write_map(self, file, live):
        """Runs all tests once, for `read_map`. Says which one did not end, if any."""
        runs = set()
        setattr(builtins, _PROBE, runs.add)
        unfinished = file.with_suffix(".unfinished")

        def run(report):
            for function, objects in live:
                replace_code(objects, _probed_code(function))
            with unfinished.open("w", encoding="utf-8") as out:
                for test, following in _with_next(self._items):
                    report(test)
                    runs.clear()
                    start = time.process_time()
                    if self._passes(test, following) and runs:
                        cpu = round(time.process_time() - start, 4)
                        out.write(json.dumps({"test": test, "cpu": cpu, "runs": sorted(runs)}) + "\n")
            return True

        end, test, _ = _fork(run)
        if end == "passed":
            unfinished.replace(file)
            return None
        return f"{test} ended in a {end} without a mutant; leave it out with --deselect"

    def judge(self, function, mutate, budget):
        """What becomes of a mutant of the function that `mutate()` makes: a part of a line of the results."""
        while True:
            tests, left = self._chosen(function, budget)
            if not tests and not left:
                return {"outcome": "not run"}
            end, test, cpu = self._fork(tests, mutate)
            if end == "passed":
                counts = {"tests": len(tests), "left": left, "budget": budget}
                return {"outcome": "survived", **counts, "cpu": round(cpu, 2)}
            if self._fork(tests[: tests.index(test) + 1], lambda: None)[0] == "passed":
                return {"outcome": "time" if end == "time" else "killed", "by": test, "cpu": round(cpu, 2)}
            self._distrusted.add(test)

    def _fork(self, tests, prepare):
        def run(report):
            prepare()
            for test, following in _with_next(tests):
                report(test)
                signal.setitimer(signal.ITIMER_PROF, MORE_CPU + 20 * self._seconds[test])
                if not self._passes(test, following):
                    return False
            return True

        return _fork(run)

    def _passes(self, test, following):
        self._failures.clear()
        item = self._items[test]
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=self._items.get(following))
        return not self._failures

    def _chosen(self, function, budget):
        """Tests for the function's mutants, and how many others the budget leaves out."""
        parts = set(function.module.split(".")[1:])
        by_file = defaultdict(list)
        for test, digests in self._digests.items():
            if function.digest in digests and test not in self._distrusted:
                by_file[test.partition("::")[0]].append(test)

        def turn(item):
            file, tests = item
            return -len(parts.intersection(Path(file).parts)), sum(self._seconds[test] for test in tests), file

        chosen, left = [], 0
        for _, tests in sorted(by_file.items(), key=turn):
            for test in tests:
                if self._seconds[test] <= budget:
                    budget -= self._seconds[test]
                    chosen.append(test)
                else:
                    left += 1
        return chosen, left


def live_functions(functions):
    """Place -> the function objects of this process that have the function's code."""
    for function in functions:
        importlib.import_module(function.module)
    # What is frozen is not listed.
    gc.unfreeze()
    by_code = defaultdict(list)
    for one in gc.get_objects():
        if isinstance(one, FunctionType):
            code = one.__code__
            by_code[code.co_filename, code.co_qualname, code.co_firstlineno].append(one)
    gc.freeze()
    return {f.place: by_code[str(f.file), f.qualname, f.first_line] for f in functions}


def replace_code(objects, code):
    for one in objects:
        one.__code__ = code


def _probed_code(function):
    call = ast.Call(ast.Name(_PROBE, ast.Load()), [ast.Constant(function.digest)], [])
    function.node.body.insert(0, ast.Expr(call))
    try:
        return function.code()
    finally:
        function.node.body.pop(0)


def _with_next(tests):
    return itertools.pairwise([*tests, None])


def _fork(run):
    """Calls `run(report)` in a fork: how it ended, the last test reported, and seconds of CPU time.

    It ended `passed`, `failed`, in `time` (out of CPU time, or idle), or in a `crash`.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _run_in_child(run, writing)
    os.close(writing)
    try:
        with os.fdopen(reading, "rb", buffering=0) as pipe:
            end, test = _watch(child, pipe)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        _, status, usage = os.wait4(child, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGPROF:
        end = "time"
    return end, test, usage.ru_utime + usage.ru_stime


def _run_in_child(run, pipe):
    def report(what):
        os.write(pipe, json.dumps(what).encode() + b"\n")

    end = "crash"
    try:
        # To be killed with all that tests start.
        os.setsid()
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MORE_MEMORY,) * 2)
        end = "passed" if run(report) else "failed"
    finally:
        # Never back into the parent's code, whatever a mutant raises.
        report({"end": end})
        os._exit(0)


def _watch(child, pipe):
    """Reads the child's reports: how it ended, and in which test."""
    test, text, ticks, busy = None, b"", -1, time.monotonic()
    while True:
        if select.select([pipe], [], [], 1)[0]:
            piece = pipe.read(65536)
            if not piece:
                return "crash", test
            *lines, text = (text + piece).split(b"\n")
            for line in map(json.loads, lines):
                if isinstance(line, dict):
                    return line["end"], test
                test = line
            busy = time.monotonic()
            continue
        before, (ticks, ready) = ticks, _activity(child)
        if ready or ticks != before:
            busy = time.monotonic()
        elif time.monotonic() - busy > IDLE:
            return "time", test


def _activity(process):
    """CPU time of the process in ticks, and whether any of its threads is ready to run or waits for a disk."""
    ticks, ready = 0, False
    for stat in Path(f"/proc/{process}/task").glob("*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            fields = stat.read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
            ready = ready or fields[0] in "RD"
    return ticks, ready
