"""Health pages, exactly as in kube-scheduler 1.36, and their log lines and metrics."""

import logging

import pytest

from stowplan.kube.klog import logger
from stowplan.net.serving.requests.health import HealthChecks
from support.observing.log_lines import logged
from support.serving.secure_port import asked


class Observed:
    def __init__(self):
        self.seen = []

    def observe(self, name, type, ok):
        self.seen.append((name, type, ok))


def _checks(**reasons):
    return HealthChecks("readyz", {name.replace("_", "-"): lambda why=why: why for name, why in reasons.items()})


FINE = _checks(shutdown=None, sched_handler_sync=None)
SYNCING = _checks(shutdown=None, sched_handler_sync="handlers are not fully synchronized")


@pytest.mark.parametrize(
    ("checks", "query", "status", "body"),
    [
        pytest.param(FINE, {}, 200, "ok", id="fine"),
        pytest.param(
            FINE,
            {"verbose": [""]},
            200,
            "[+]shutdown ok\n[+]sched-handler-sync ok\nreadyz check passed\n",
            id="fine, in detail",
        ),
        pytest.param(FINE, {"verbose": ["false"]}, 200, None, id="any value is in detail"),
        pytest.param(
            FINE,
            {"verbose": [""], "exclude": ["zzz", "shutdown", "aaa"]},
            200,
            "[+]shutdown excluded: ok\n[+]sched-handler-sync ok\n"
            'warn: some health checks cannot be excluded: no matches for "aaa","zzz"\nreadyz check passed\n',
            id="without some",
        ),
        pytest.param(
            SYNCING,
            {},
            500,
            "[+]shutdown ok\n[-]sched-handler-sync failed: reason withheld\nreadyz check failed\n",
            id="failing",
        ),
        pytest.param(SYNCING, {"exclude": ["sched-handler-sync"]}, 200, "ok", id="without the failing one"),
        pytest.param(HealthChecks("livez", {}), {"verbose": [""]}, 200, "[+]ping ok\nlivez check passed\n", id="none"),
    ],
)
def test_a_group(checks, query, status, body):
    (path, page), *_ = checks.pages.items()
    response = page(asked(path, query=query))
    assert response.status == status
    assert body is None or response.body.decode() == body
    assert response.content_type == "text/plain; charset=utf-8"
    assert ("X-Content-Type-Options", "nosniff") in response.headers


def test_a_single_check_has_the_reason():
    pages = SYNCING.pages
    assert list(pages) == ["/readyz", "/readyz/shutdown", "/readyz/sched-handler-sync"]
    fine = pages["/readyz/shutdown"](asked())
    assert (fine.status, fine.body) == (200, b"ok")
    failing = pages["/readyz/sched-handler-sync"](asked())
    assert (failing.status, failing.body) == (
        500,
        b"internal server error: handlers are not fully synchronized\n",
    )


def test_excluded_checks_are_not_counted():
    observed = Observed()
    checks = HealthChecks("healthz", {"a": lambda: None, "b": lambda: "no", "c": lambda: None}, observer=observed)
    checks.report(excluded=["c"])
    assert observed.seen == [("a", "healthz", True), ("b", "healthz", False)]


def test_the_log_has_the_reasons(caplog):
    caplog.set_level(logging.DEBUG)
    logger.set_verbosity(2)
    try:
        SYNCING.report()
    finally:
        logger.set_verbosity(0)
    assert caplog.messages == [
        "sched-handler-sync check failed: readyz\n[-]sched-handler-sync failed: handlers are not fully synchronized"
    ]


def test_exceptions_in_checks_propagate():
    def broken():
        raise RuntimeError("bug")

    with pytest.raises(RuntimeError):
        HealthChecks("healthz", {"a": broken}).report()


def test_health_checks_that_are_installed():
    with logged() as found:
        HealthChecks("readyz", {"leaderElection": lambda: None, "shutdown": lambda: None})
        HealthChecks("livez", {})
    assert found.of("health") == [
        (5, 'Installing health checkers for (/readyz): "leaderElection","shutdown"', {}),
        (5, "No default health checks specified. Installing the ping handler.", {}),
        (5, 'Installing health checkers for (/livez): "ping"', {}),
    ]
