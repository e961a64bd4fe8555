"""How often the garbage collector runs, and how many threads NumPy gets."""

from __future__ import annotations

import gc
import os
from typing import TYPE_CHECKING

import pytest

from stowplan.kube.timing.process_tuning import collect_garbage_less_often, prepare_for_imports

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def frozen(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Calls of `gc.freeze`, which would last for all later tests."""
    calls: list[str] = []
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    monkeypatch.setattr(gc, "freeze", lambda: calls.append("freeze"))
    before = gc.get_threshold()
    yield calls
    gc.set_threshold(*before)
    gc.enable()


def test_seldom_is_less_often_than_by_default() -> None:
    collect_garbage_less_often()
    assert all(new > old for new, old in zip(gc.get_threshold(), (700, 10, 10), strict=True))


def test_what_was_made_before_the_work_stays_and_is_not_looked_at(frozen: list[str]) -> None:
    prepare_for_imports()
    assert not gc.isenabled()
    collect_garbage_less_often()
    assert gc.isenabled()
    assert frozen == ["freeze"]


def test_a_collector_that_runs_freezes_nothing(frozen: list[str]) -> None:
    collect_garbage_less_often()
    assert gc.isenabled()
    assert frozen == []


def test_numpy_has_one_thread_unless_the_environment_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    prepare_for_imports()
    assert os.environ["OPENBLAS_NUM_THREADS"] == "1"
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "4")
    prepare_for_imports()
    assert os.environ["OPENBLAS_NUM_THREADS"] == "4"
