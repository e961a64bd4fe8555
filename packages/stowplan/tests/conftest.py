"""Run the command in this process, and write the files that it reads."""

import json

import pytest

from support.processes.own_process import run_here


@pytest.fixture
def run():
    """`run("explain", "-f", "-", stdin=...)`."""
    return run_here


@pytest.fixture
def files(tmp_path):
    """Write objects to a file and return its path."""

    def write(*objects, name="cluster.json"):
        path = tmp_path / name
        path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))
        return str(path)

    return write
