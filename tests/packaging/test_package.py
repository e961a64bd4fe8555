"""The public names of the package, which are imported on first use."""

import subprocess
import sys

import pytest

import stowplan
from stowplan.ask import offline
from stowplan.scheduler.in_tree import configuration


def test_each_public_name_exists():
    assert set(stowplan.__all__) < set(dir(stowplan))
    assert all(getattr(stowplan, name).__name__ == name for name in stowplan.__all__)
    assert stowplan.Cluster is offline.Cluster
    assert stowplan.load_config is configuration.load_config


def test_other_names_do_not_exist():
    with pytest.raises(AttributeError, match=r"module 'stowplan' has no attribute 'Clutser'"):
        _ = stowplan.Clutser


@pytest.mark.parametrize(
    "statement",
    ["import stowplan", "import stowplan.app.cli.kube_scheduler", "import stowplan; stowplan.load_config()"],
)
def test_imports_are_lazy(statement):
    heavy = "{'numpy', 'aiohttp', 'click', 'stowplan.ask.offline'}"
    code = f"import sys; {statement}; print(sorted({heavy} & set(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout == "[]\n"
