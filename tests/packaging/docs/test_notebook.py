"""The notebook's outputs are up to date."""

import json

from support.notebooks import executed, written
from support.paths import ROOT

NOTEBOOK = ROOT / "docs/use/notebook.ipynb"


def test_outputs_are_those_of_the_cells():
    stored = NOTEBOOK.read_text()
    assert written(executed(json.loads(stored))) == stored, "PYTHONPATH=tests python -m support.notebooks updates it"
