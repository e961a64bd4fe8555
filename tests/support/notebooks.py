"""Run a notebook's cells, and write their outputs.

    PYTHONPATH=tests python -m support.notebooks docs/use/notebook.ipynb

No kernel is needed: the last expression of a cell is its output, as text and, if it has one, as HTML.
"""

import ast
import json
import sys
from pathlib import Path


def executed(notebook):
    """The notebook with the current outputs of its code cells."""
    names, cells = {}, []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            number = 1 + sum(other["cell_type"] == "code" for other in cells)
            outputs = [_output(value, number) for value in _values("".join(cell["source"]), names)]
            cell = cell | {"execution_count": number, "outputs": outputs}
        cells.append(cell)
    return notebook | {"cells": cells}


def _values(source, names):
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    return [] if last is None else [eval(compile(ast.Expression(last.value), "cell", "eval"), names)]


def _output(value, number):
    data = {"text/plain": repr(value).splitlines(keepends=True)}
    if hasattr(value, "_repr_html_"):
        data["text/html"] = [value._repr_html_()]
    return {"output_type": "execute_result", "execution_count": number, "metadata": {}, "data": data}


def written(notebook):
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for name in sys.argv[1:]:
        path = Path(name)
        path.write_text(written(executed(json.loads(path.read_text()))))
