"""The standard library's log records as klog lines, and klog lines as records."""

import logging

import pytest

from stowplan.kube.klog import get_logger


def test_a_record_is_a_plain_line_with_the_place_it_comes_from(log_with):
    log = log_with()
    logging.getLogger("stowplan.net.client.connection").warning("no %s here", "cluster")
    assert log.text.startswith("W1120 15:40:52.123456       1 test_standard_library.py:")
    assert log.body == "no cluster here"


def test_attributes_of_records_are_keys(log_with):
    log = log_with()
    logging.getLogger("stowplan.kube.config.plugins").info("Default plugin is overridden", extra={"plugin": "NodeName"})
    assert log.body == '"Default plugin is overridden" plugin="NodeName"'


def test_exceptions_have_a_traceback(log_with):
    log = log_with()
    try:
        raise RuntimeError("broken")
    except RuntimeError:
        logging.getLogger("asyncio").exception("Task failed")
    assert log.body.startswith('"Task failed" err="broken" stacktrace=<\n\tTraceback')


def test_records_with_wrong_arguments_are_logged(log_with):
    log = log_with()
    record = logging.getLogger("somebody").makeRecord("somebody", logging.ERROR, "a.py", 1, "%d pods", ("many",), None)
    # Not through the logger: the test runner has a handler that would fail on it.
    logging.getLogger().handlers[-1].handle(record)
    assert log.body == "%d pods ('many',)"


@pytest.mark.parametrize(
    ("verbosity", "own", "others"),
    [
        pytest.param(0, ["info", "warning"], ["warning"], id="as it starts"),
        pytest.param(4, ["info", "warning"], ["info", "warning"], id="more of libraries"),
        pytest.param(5, ["debug", "info", "warning"], ["info", "warning"], id="our own details"),
        pytest.param(8, ["debug", "info", "warning"], ["debug", "info", "warning"], id="everything"),
    ],
)
def test_levels(log_with, verbosity, own, others):
    log = log_with(verbosity=verbosity)
    for name in ("stowplan.kube.config", "aiohttp.client"):
        for level in ("debug", "info", "warning"):
            getattr(logging.getLogger(name), level)("%s %s", name, level)
    written = [line.split("] ")[1] for line in log.text.splitlines()]
    expected = [f"stowplan.kube.config {level}" for level in own] + [f"aiohttp.client {level}" for level in others]
    assert written == expected


def test_closing_leaves_logging_as_it_was(log_with):
    before = logging.getLogger().level, logging.getLogger("stowplan").level, list(logging.getLogger().handlers)
    log = log_with(verbosity=9)
    log.logs.close()
    after = logging.getLogger().level, logging.getLogger("stowplan").level, list(logging.getLogger().handlers)
    assert after == before
    get_logger("stowplan.x").warning("nobody hears this here")
    assert not log.text


def test_only_a_scheduler_is_quiet_in_a_program_without_logging(monkeypatch):
    printed = []
    monkeypatch.setattr(logging.root, "handlers", [])
    monkeypatch.setattr(logging, "lastResort", logging.NullHandler())
    monkeypatch.setattr(logging.lastResort, "handle", lambda record: printed.append(record.name))
    for name in (
        "stowplan.scheduler.engine.schedule_one",
        "stowplan.scheduler.framework.runtime.framework",
        "stowplan.drivers.hang_guard.x",
    ):
        logging.getLogger(name).error("no")
    assert printed == ["stowplan.drivers.hang_guard.x"]


def test_unconfigured_lines_are_records_of_their_module(caplog):
    caplog.set_level(logging.INFO)
    log = get_logger(__name__)
    log.info("Hello", pod="a/b")
    log.error(ValueError("no"), "Failed", n=1)
    assert [(record.levelname, record.name, record.getMessage()) for record in caplog.records] == [
        ("INFO", __name__, 'Hello pod="a/b"'),
        ("ERROR", __name__, 'Failed err="no" n=1'),
    ]
    assert not log.v(1).enabled
