"""Build information and feature gates as gauges.

The labels are the reference's. Those about Go contain information about Python.

Upstream: staging/src/k8s.io/component-base/metrics/{version.go,prometheus/feature,prometheus/compatversion}.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import astuple

from stowplan.kube.metrics.registry import MetricsRegistry
from stowplan.kube.structs import PlainStruct


class BuildInfo(PlainStruct, frozen=True, kw_only=True):
    """As in /version."""

    major: str
    minor: str
    git_version: str
    git_commit: str
    git_tree_state: str
    build_date: str
    #: "python3.11.9"
    go_version: str
    #: "cpython", or "mypyc" in the compiled form.
    compiler: str
    platform: str


class CompatibilityVersions(PlainStruct, frozen=True, kw_only=True):
    """The binary version, the emulated version, and the minimum compatibility version."""

    component: str = "kube"
    binary: str
    emulation: str
    min_compat: str


def register_build_info(registry: MetricsRegistry, info: BuildInfo) -> None:
    registry.gauge_vec(
        "kubernetes_build_info",
        "Always 1; the labels tell what was built, from what, and where it runs.",
        BuildInfo.__struct_fields__,
        stability="BETA",
    ).with_label_values(*astuple(info)).set(1.0)


def register_version_info(registry: MetricsRegistry, versions: CompatibilityVersions) -> None:
    registry.gauge_vec(
        "version_info",
        "Always 1; the labels have the binary, emulation and minimum compatibility versions.",
        CompatibilityVersions.__struct_fields__,
    ).with_label_values(*astuple(versions)).set(1.0)


def register_features(registry: MetricsRegistry, features: Iterable[tuple[str, str, bool]]) -> None:
    """`features`: name, stage (ALPHA, BETA, DEPRECATED, or "" for GA), whether it is enabled."""
    enabled = registry.gauge_vec(
        "kubernetes_feature_enabled",
        "Whether a feature gate is on (1) or off (0), with the stage it is in.",
        ("name", "stage"),
        stability="BETA",
    )
    for name, stage, on in features:
        enabled.with_label_values(name, stage).set(1.0 if on else 0.0)
