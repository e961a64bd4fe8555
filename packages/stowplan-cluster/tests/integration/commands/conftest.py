import pytest

from support.processes.own_process import run_here


@pytest.fixture
def run():
    """Run the command in this process: `run("up", "--nodes=0")`."""
    return run_here
