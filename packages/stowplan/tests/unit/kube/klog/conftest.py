"""A log configured for a test, at a fixed time, and read back line by line."""

import io
import time

import pytest

from stowplan.kube.klog.setup import LogSettings, set_up

#: 2026-11-20 15:40:52.123456 UTC.
MOMENT = 1795189252.123456


class Log:
    def __init__(self, logs, information, trouble):
        self.logs = logs
        self._streams = {"information": information, "trouble": trouble}

    @property
    def text(self):
        return self._streams["trouble"].getvalue()

    @property
    def information(self):
        return self._streams["information"].getvalue()

    @property
    def last(self):
        return self.text.splitlines()[-1]

    @property
    def body(self):
        """The only line without its header."""
        return self.text.split("] ", 1)[1].removesuffix("\n")


@pytest.fixture
def utc(monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def log_with(utc):
    opened = []

    def make(**settings):
        streams = io.StringIO(), io.StringIO()
        information, trouble = streams
        logs = set_up(
            LogSettings(**settings), information=information, trouble=trouble, wall_clock=lambda: MOMENT, pid=1
        )
        opened.append(logs)
        return Log(logs, information, trouble)

    yield make
    for logs in opened:
        logs.close()
