"""The notebook shows what its cells give."""

import json
from pathlib import Path

from support.notebooks import executed, written

NOTEBOOK = Path(__file__).parents[2] / "docs" / "notebook.ipynb"


def test_outputs_are_what_the_cells_give():
    stored = NOTEBOOK.read_text()
    assert written(executed(json.loads(stored))) == stored, (
        "PYTHONPATH=tests python -m support.notebooks writes it anew"
    )
