"""A process' metrics with all feature gates and labels, for tests."""

from stowplan.kube.config.features import DEFAULT_FEATURES, default_features
from stowplan.kube.kubernetes_versions import DEFAULT_VERSION
from stowplan.kube.metrics.component import BuildInfo, CompatibilityVersions, ComponentMetrics
from stowplan.kube.metrics.registry import MetricsOptions

BUILD = BuildInfo(
    major="1",
    minor="36",
    git_version="v1.36.2",
    git_commit="0123abc",
    git_tree_state="clean",
    build_date="2026-01-01T00:00:00Z",
    go_version="python3.11.9",
    compiler="cpython",
    platform="linux/amd64",
)
VERSIONS = CompatibilityVersions(binary="1.36", emulation="1.36", min_compat="1.35")
FEATURES = (("SidecarContainers", "", True), ("GenericWorkload", "ALPHA", False))


def all_gates_on(version=DEFAULT_VERSION):
    features = default_features(version)
    return features.with_gates(dict.fromkeys(features.gates, True))


def component(options=None, *, gates=DEFAULT_FEATURES):
    return ComponentMetrics(
        options or MetricsOptions(),
        gates=gates,
        features=FEATURES,
        build=BUILD,
        versions=VERSIONS,
        stowplan_version="9.9.9",
    )


def used_once(metrics):
    """Make one child of every vector."""
    for group in (metrics.scheduler, metrics.client, metrics.serving, metrics.stowplan):
        for family in vars(group).values():
            if hasattr(family, "with_label_values"):
                family.with_label_values(*("any" for _ in family.labels))
