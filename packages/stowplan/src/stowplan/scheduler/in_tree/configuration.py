"""Load configurations with in-tree plugins only, without importing NumPy or plugin code."""

from __future__ import annotations

from stowplan.kube import config
from stowplan.kube.config.config_loading import Source
from stowplan.scheduler.in_tree.discovery import declarations


def load_config(
    source: Source = None, *, features: config.FeatureGates = config.DEFAULT_FEATURES
) -> config.Configuration:
    """Load a KubeSchedulerConfiguration: a mapping, the path of a YAML or JSON file, or None for the defaults.

    Raises ConfigError, with kube-scheduler's message, for an invalid one.

    Examples:
        >>> profile = load_config("configurations/packing.yaml").profile("default-scheduler")
        >>> profile.plugin_args("NodeResourcesFit").scoring_strategy.type
        'MostAllocated'
    """
    return config.load_config(source, plugins=declarations(), features=features)
