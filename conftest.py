"""Hypothesis profiles, and skips for missing programs. Which tests run when: the folders of tests, see CONTRIBUTING.md.

    STOWPLAN_EXAMPLES=20   property tests run twenty times as many examples; see tests/support/examples.py
    REQUIRE=assets,kubectl tests that would be skipped without these fail instead

There are no deadlines, and the examples are fixed where CI runs them.
"""

import gc
import os
import signal
from collections import Counter

import pytest
from hypothesis import HealthCheck, settings

from support.examples import times

# A busy machine is not a failure of a test.
LOAD = [HealthCheck.too_slow]
settings.register_profile("default", deadline=None, max_examples=times(100), suppress_health_check=LOAD)
settings.register_profile("ci", settings.get_profile("default"), derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")

# So that no test finds a scheduler that runs on this machine.
os.environ.pop("XDG_RUNTIME_DIR", None)

#: What tests may require -> text in the reason of a skip.
NEEDS = {
    "assets": "KUBEBUILDER_ASSETS",
    "kubectl": "kubectl is not installed",
    "helm": "helm is not installed",
    "promtool": "promtool is not installed",
    "otelcol": "otelcol is not installed",
    "chromium": "chromium is not installed",
    "axe": "axe-core is not installed",
    "node": "node is not installed",
    "dask": "the extra dask is not installed",
    "tune": "the extra tune is not installed",
}


def pytest_configure(config):
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # Started in the background by a shell, which ignores SIGINT. Processes that tests start would inherit that, and
        # tests interrupt them.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.addinivalue_line("markers", "slow: starts processes, or is long; not part of `make test`")
    unknown = set(_required()) - NEEDS.keys()
    if unknown:
        raise pytest.UsageError(f"REQUIRE={','.join(sorted(unknown))}: expected some of {', '.join(NEEDS)}")


@pytest.hookimpl(wrapper=True)
def pytest_collection(session):
    """Collects without the garbage collector: collected items stay, and scanning them takes a fifth of the time.

    They are frozen afterwards, so that they are not scanned while tests run, either. What tests share stays, too: at
    Python's default rate, looking at it takes a tenth of the time of `make test`.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(5_000, 10, 100)
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and (needed := _needed(report)) in _required():
        report.outcome = "failed"
        report.longrepr = f"REQUIRE={needed}: {report.longrepr[2]}"
    return report


def pytest_terminal_summary(terminalreporter):
    skipped = Counter(_needed(report) for report in terminalreporter.stats.get("skipped", ()))
    counts = ", ".join(f"{skipped[name]} without {name}" for name in NEEDS if skipped[name])
    if counts:
        terminalreporter.write_line(f"skipped: {counts}; REQUIRE=NAME,… makes that a failure")


def _required():
    return [name for name in os.environ.get("REQUIRE", "").split(",") if name]


def _needed(report):
    """The requirement that a skipped test lacked."""
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return next((name for name, words in NEEDS.items() if words in reason), None)
