"""The example is not installed: its folder is added to sys.path."""

from __future__ import annotations

from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[3] / "examples" / "gpu_sharing"


@pytest.fixture(autouse=True)
def example(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLE)
