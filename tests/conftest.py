"""Profiles of the property tests, the quick part of the suite, and what is skipped for want of a program.

    STOWPLAN_EXAMPLES=20   property tests look twenty times as far; see tests/support/examples.py
    --quick                what `make test` runs: all but SLOW, what its name says is long, and what is marked slow
    REQUIRE=assets,kubectl what is skipped for want of these fails instead

No deadlines, and the same examples every time where CI runs them.
"""

import gc
import os
import signal
from collections import Counter
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from support.examples import times

# Nor is it a fault of a test that the machine is busy.
LOAD = [HealthCheck.too_slow]
settings.register_profile("default", deadline=None, max_examples=times(100), suppress_health_check=LOAD)
settings.register_profile("ci", settings.get_profile("default"), derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")

# Where a scheduler on this machine would be found.
os.environ.pop("XDG_RUNTIME_DIR", None)

#: Folders and files of the whole suite alone: what starts processes, browsers and servers or talks through sockets,
#: whole runs of a cluster, and long histories.
SLOW = (
    "api/test_hostile_files.py",
    "chaos",
    "cli/test_explain_local_scheduler.py",
    "cli/test_explain_from_scheduler.py",
    "cli/test_explain_live.py",
    "cli/test_recordings.py",
    "cli/test_run.py",
    "cli/test_ui.py",
    "client/credentials/test_exec_credentials.py",
    "client/endpoint/test_tls.py",
    "client/http/test_beside_aiohttp.py",
    "client/http/test_connection_pool.py",
    "client/http/test_faults.py",
    "client/http/test_transport.py",
    "client/test_http_api.py",
    "command_line",
    "compare",
    "daemon/test_asking.py",
    "daemon/test_pages.py",
    "deploy",
    "docs",
    "engine/test_reconfiguration.py",
    "examples",
    "explain/test_exactness.py",
    "explain/test_snapshots.py",
    "guarding/test_hang_guard.py",
    "integration",
    "live/test_http_extenders.py",
    "live/test_reconfiguration.py",
    "live/test_replay.py",
    "live/test_two_drivers.py",
    "live/test_unschedulable_flush.py",
    "live/test_volume_faults.py",
    "live/test_volumes.py",
    "live/test_waiting_cycles.py",
    "page/browser",
    "page/test_built.py",
    "queue/test_hints_by_shape.py",
    "recordings/test_replaying.py",
    "scenarios/results/test_output.py",
    "scenarios/report/test_page.py",
    "scenarios/test_simulation.py",
    "serving/profiling",
    "serving/test_hostile_clients.py",
    "serving/test_secure_server.py",
    "serving/tls",
    "simulate/test_random_scenarios.py",
    "simulate/test_resuming.py",
    "simulate/test_users_errors.py",
    "simulate/test_with_the_engine.py",
    "sources",
    "stowplan_cluster/apiserver/validation/test_arbitrary.py",
    "stowplan_cluster/commands",
    "stowplan_cluster/front",
    "sweeps",
    "test_benchmarks.py",
)
#: Of the slow ones, what everybody relies on: kubectl reads and writes.
CORE = ("integration/test_kubectl_reading.py",)
#: Begun first: tests that take many seconds each, among them all that share a browser. At the end there is what is
#: short, so that all workers end at about the same time.
FIRST = (
    "page/browser",
    "deploy/test_container.py",
    "docs/test_site.py",
    "test_benchmarks.py",
    "chaos",
    "live/test_soak.py",
    "cluster/test_rebuild.py",
    "api/test_hostile_files.py",
    "integration/test_hostile_files.py",
)
#: Elsewhere, what says by its name that it is long or starts a process.
LONG_NAMES = ("process", "soak", "crowd", "histories", "state_machine")

#: What tests may need -> how the reason of a skipped one names it.
NEEDS = {
    "assets": "KUBEBUILDER_ASSETS",
    "kubectl": "kubectl is not installed",
    "helm": "helm is not installed",
    "promtool": "promtool is not installed",
    "chromium": "chromium is not installed",
    "axe": "axe-core is not installed",
    "node": "node is not installed",
    "dask": "the extra dask is not installed",
    "tune": "the extra tune is not installed",
}
_HERE = Path(__file__).parent


def pytest_addoption(parser):
    parser.addoption("--quick", action="store_true", help="leave out what starts servers and processes, and long runs")


def pytest_configure(config):
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # Started in the background by a shell. Processes of tests would ignore it, too, and they are to end of it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.addinivalue_line("markers", "slow: starts processes, or is long; left out by --quick")
    if config.getoption("--quick"):
        # Hypothesis reads all our sources for constants to try: 8 s a worker where none are cached, more than the rest
        # of its work on a tenth of the examples. The whole suite has it done.
        providers._get_local_constants = providers.Constants
    gone = [path for path in (*SLOW, *CORE, *FIRST) if not (_HERE / path).exists()]
    if gone:
        raise pytest.UsageError(f"{_HERE / 'conftest.py'}: a list there names what is not there: {', '.join(gone)}")
    unknown = set(_required()) - NEEDS.keys()
    if unknown:
        raise pytest.UsageError(f"REQUIRE={','.join(sorted(unknown))}: want some of {', '.join(NEEDS)}")


def pytest_ignore_collect(collection_path, config):
    """Not even imported, where only the quick part is asked for."""
    if not config.getoption("--quick") or _HERE not in collection_path.parents:
        return None
    path = collection_path.relative_to(_HERE).as_posix()
    if path.endswith("conftest.py") or any(one == path or one.startswith(f"{path}/") for one in CORE):
        return None
    return True if _is_of(path, SLOW) or any(name in collection_path.name for name in LONG_NAMES) else None


def _is_of(path, listed):
    return any(path == one or path.startswith(f"{one}/") for one in listed)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config):
    """For the whole suite half as many again as there are cores: many of its tests wait, for a server, a process, a
    browser, or for the seconds of a backoff or a lease."""
    if config.getoption("--quick") or os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS"):
        return None
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores + cores // 2


@pytest.hookimpl(wrapper=True)
def pytest_collection(session):
    """Without the garbage collector: what is collected stays, and looking through it takes a fifth of the time.

    Nor is it looked through afterwards, while tests run.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    """Every other worker of xdist begins at the end. Where nothing is cached they meet in the middle: each rewrites and
    compiles half of the modules, and reads the rest from the other's cache."""
    report = yield
    if isinstance(collector, pytest.Directory) and _is_odd_worker():
        report.result.reverse()
    return report


def _is_odd_worker():
    number = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
    return int(number) % 2 == 1


def pytest_collection_modifyitems(config, items):
    # All workers must name the same tests in the same order; within a file it is that of the file.
    items.sort(key=_turn)
    if config.getoption("--quick"):
        slow = [item for item in items if item.get_closest_marker("slow")]
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if not item.get_closest_marker("slow")]


def _turn(item):
    file = item.nodeid.partition("::")[0]
    return not _is_of(file.removeprefix(f"{_HERE.name}/"), FIRST), file


def _required():
    return [name for name in os.environ.get("REQUIRE", "").split(",") if name]


def _needed(report):
    """What a skipped test would have needed."""
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return next((name for name, words in NEEDS.items() if words in reason), None)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    """A worker of xdist tells of what is counted: of each test one report, and what went wrong before and after it.

    Otherwise it sends three reports, a beginning and an end of each; with thousands of tests of a few milliseconds,
    that is a tenth of the time.
    """
    if not hasattr(item.config, "workerinput") or _all_phases_are_read(item.config):
        return None
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if report.when == "call" or not report.passed:
            item.ihook.pytest_runtest_logreport(report=report)
    return True


def _all_phases_are_read(config):
    return config.getoption("durations") is not None or bool(config.getoption("xmlpath"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    # Names of everything around the test, which nobody reads and each report would take along.
    report.keywords = {}
    if report.skipped and not hasattr(report, "wasxfail") and (needed := _needed(report)) in _required():
        report.outcome = "failed"
        report.longrepr = f"REQUIRE={needed}: {report.longrepr[2]}"
    return report


def pytest_terminal_summary(terminalreporter):
    skipped = Counter(_needed(report) for report in terminalreporter.stats.get("skipped", ()))
    told = ", ".join(f"{skipped[name]} for want of {name}" for name in NEEDS if skipped[name])
    if told:
        terminalreporter.write_line(f"skipped: {told}; REQUIRE=NAME,… makes that a failure")
