"""A written configuration as another version: arguments that were defaults follow the version."""

from itertools import permutations

import pytest

from stowplan.kube.config import load_config
from stowplan.kube.config.config_loading import without_defaults
from stowplan.kube.config.features import default_features
from stowplan.kube.kubernetes_versions import V1_36, V1_37
from stowplan.scheduler.in_tree.discovery import declarations

PLUGINS = declarations()


def load(source, version):
    return load_config(source, plugins=PLUGINS, features=default_features(version))


def as_another(written, then):
    return without_defaults(written, plugins=PLUGINS, features=default_features(then))


@pytest.mark.parametrize(("then", "now"), [*permutations((V1_36, V1_37))], ids=str)
def test_defaults_become_the_other_versions(then, now):
    written = load(None, then).to_dict()
    assert written != load(None, now).to_dict()
    assert load(as_another(written, then), now) == load(None, now)


def test_what_was_set_stays():
    args = {"bindTimeoutSeconds": 7}
    profile = {"schedulerName": "mine", "pluginConfig": [{"name": "VolumeBinding", "args": args}]}
    source = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }
    written = load(source, V1_37).to_dict()
    found = load(as_another(written, V1_37), V1_36)
    assert found.profile("mine").plugin_args("VolumeBinding").bind_timeout_seconds == 7
