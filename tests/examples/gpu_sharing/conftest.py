"""The example is no installed package: its folder is put where Python looks for modules."""

from __future__ import annotations

from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[3] / "examples" / "gpu_sharing"


@pytest.fixture(autouse=True)
def example(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLE)
