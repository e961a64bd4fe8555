"""The names of the package itself, which are imported when they are asked for."""

import subprocess
import sys

import pytest

import stowplan
from stowplan import config, offline


def test_each_public_name_is_there():
    assert set(stowplan.__all__) < set(dir(stowplan))
    assert all(getattr(stowplan, name).__name__ == name for name in stowplan.__all__)
    assert stowplan.Cluster is offline.Cluster
    assert stowplan.load_config is config.load_config


def test_other_names_are_not():
    with pytest.raises(AttributeError, match=r"module 'stowplan' has no attribute 'Clutser'"):
        _ = stowplan.Clutser


@pytest.mark.parametrize("module", ["stowplan", "stowplan.cli.kube_scheduler"])
def test_nothing_is_imported_that_nobody_asked_for(module):
    code = (
        f"import sys, {module}; print(sorted({{'numpy', 'aiohttp', 'click', 'stowplan.offline'}} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout == "[]\n"
