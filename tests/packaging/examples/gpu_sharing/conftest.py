"""The example is not installed: its folder is added to sys.path."""

from __future__ import annotations

import pytest

from support.paths import ROOT

EXAMPLE = ROOT / "examples" / "gpu_sharing"


@pytest.fixture(autouse=True)
def example(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLE)
