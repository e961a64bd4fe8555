"""Hypothesis profiles, the quick part of the suite, and skips for missing programs.

    STOWPLAN_EXAMPLES=20   property tests run twenty times as many examples; see tests/support/examples.py
    --quick                what `make test` runs: all but SLOW, long tests by name, and tests marked slow
    REQUIRE=assets,kubectl tests that would be skipped without these fail instead

There are no deadlines, and the examples are fixed where CI runs them.
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

# A busy machine is not a failure of a test.
LOAD = [HealthCheck.too_slow]
settings.register_profile("default", deadline=None, max_examples=times(100), suppress_health_check=LOAD)
settings.register_profile("ci", settings.get_profile("default"), derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")

# So that no test finds a scheduler that runs on this machine.
os.environ.pop("XDG_RUNTIME_DIR", None)

#: Folders and files that run only in the whole suite: they start processes, browsers and servers, use sockets, run
#: whole clusters, or play long histories.
SLOW = (
    "answers",
    "api/test_hostile_files.py",
    "chaos",
    "cli/test_explain_local_scheduler.py",
    "cli/test_explain_from_scheduler.py",
    "cli/test_explain_live.py",
    "cli/test_plugin_arguments.py",
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
    "tuning/test_tune.py",
    "what_if/test_beside_the_cluster.py",
)
#: Slow tests that --quick runs nevertheless, as everything relies on them: kubectl reads and writes.
CORE = ("integration/test_kubectl_reading.py",)
#: Started first: tests that take many seconds each, among them all that share a browser. Short ones come last, so that
#: all workers finish at about the same time.
FIRST = (
    "page/browser",
    "deploy/test_container.py",
    "docs/test_site.py",
    "test_benchmarks.py",
    "chaos",
    "live/test_soak.py",
    "cluster/test_rebuild.py",
    "api/test_hostile_files.py",
)
#: In other folders, words in names of files that are long or start a process.
LONG_NAMES = ("process", "soak", "crowd", "histories", "state_machine")

#: What tests may require -> text in the reason of a skip.
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
    parser.addoption("--quick", action="store_true", help="skip tests that start servers or processes, and long runs")


def pytest_configure(config):
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # Started in the background by a shell, which ignores SIGINT. Processes that tests start would inherit that, and
        # tests interrupt them.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.addinivalue_line("markers", "slow: starts processes, or is long; skipped by --quick")
    if config.getoption("--quick"):
        # Hypothesis parses all our sources for constants: 8 s per worker without a cache, more than the rest of its
        # work on a tenth of the examples. The whole suite does it.
        providers._get_local_constants = providers.Constants
    missing = [path for path in (*SLOW, *CORE, *FIRST) if not (_HERE / path).exists()]
    if missing:
        raise pytest.UsageError(f"{_HERE / 'conftest.py'}: a list there names missing paths: {', '.join(missing)}")
    unknown = set(_required()) - NEEDS.keys()
    if unknown:
        raise pytest.UsageError(f"REQUIRE={','.join(sorted(unknown))}: expected some of {', '.join(NEEDS)}")


def pytest_ignore_collect(collection_path, config):
    """With --quick, ignored files are not even imported."""
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
    """For the whole suite, one and a half workers per core: many tests wait for a server, a process, a browser, or a
    backoff or lease."""
    if config.getoption("--quick") or os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS"):
        return None
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores + cores // 2


@pytest.hookimpl(wrapper=True)
def pytest_collection(session):
    """Collects without the garbage collector: collected items stay, and scanning them takes a fifth of the time.

    They are frozen afterwards, so that they are not scanned while tests run, either.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    """Every other xdist worker starts at the end. Without caches they meet in the middle: each rewrites and compiles
    half of the modules, and reads the rest from the other's cache."""
    report = yield
    if isinstance(collector, pytest.Directory) and _is_odd_worker():
        report.result.reverse()
    return report


def _is_odd_worker():
    number = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
    return int(number) % 2 == 1


def pytest_collection_modifyitems(config, items):
    # All workers must collect the same tests in the same order; within a file the order is the file's.
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
    """The requirement that a skipped test lacked."""
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return next((name for name, words in NEEDS.items() if words in reason), None)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    """An xdist worker sends only the reports that are counted: one per test, and failures in setup and teardown.

    Otherwise it sends three reports, a start and a finish for each test; with thousands of tests of a few milliseconds,
    that takes a tenth of the time.
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
    # Keywords of the test's parents, which are not used and would be sent with each report.
    report.keywords = {}
    if report.skipped and not hasattr(report, "wasxfail") and (needed := _needed(report)) in _required():
        report.outcome = "failed"
        report.longrepr = f"REQUIRE={needed}: {report.longrepr[2]}"
    return report


def pytest_terminal_summary(terminalreporter):
    skipped = Counter(_needed(report) for report in terminalreporter.stats.get("skipped", ()))
    counts = ", ".join(f"{skipped[name]} without {name}" for name in NEEDS if skipped[name])
    if counts:
        terminalreporter.write_line(f"skipped: {counts}; REQUIRE=NAME,… makes that a failure")
