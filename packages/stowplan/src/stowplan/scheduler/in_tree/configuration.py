"""Load configurations with in-tree plugins only, without importing NumPy or plugin code."""

from __future__ import annotations

from collections.abc import Mapping

from stowplan.kube import config
from stowplan.kube.config.config_loading import Source
from stowplan.kube.config.features import with_chosen
from stowplan.kube.kubernetes_versions import version_or_default
from stowplan.scheduler.in_tree.discovery import declarations


def load_config(
    source: Source = None, *, feature_gates: Mapping[str, bool] | None = None, emulated_version: str | None = None
) -> config.Configuration:
    """Load a KubeSchedulerConfiguration: a mapping, the path of a YAML or JSON file, or None for the defaults.

    `feature_gates`: gates that differ from their defaults; `emulated_version`: the version of kube-scheduler whose
    rules apply, such as "1.36"; None: the one that is the default everywhere. Raises ConfigError, with kube-scheduler's
    message, for an invalid configuration.

    Examples:
        >>> profile = load_config("configurations/packing.yaml").profile("default-scheduler")
        >>> profile.plugin_args("NodeResourcesFit").scoring_strategy.type
        'MostAllocated'
    """
    features = with_chosen(feature_gates or {}, version_or_default(emulated_version))
    return config.load_config(source, plugins=declarations(), features=features)
