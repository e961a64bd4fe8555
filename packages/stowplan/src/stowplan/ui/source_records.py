"""The source of the page's data, and its configuration: which plugins run where, and why."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from stowplan.kube.api.yaml_text import to_yaml
from stowplan.kube.config import Configuration, Declarations, FeatureGates
from stowplan.kube.config.config_loading import Loaded
from stowplan.kube.config.configuration import Extender
from stowplan.kube.config.declaration import enabled_by_default
from stowplan.kube.config.features import default_features
from stowplan.kube.config.reports.differences import EffectiveProfile, effective_profiles
from stowplan.kube.kubernetes_versions import V1_36
from stowplan.scheduler.inspection.records import Record

Mode = Literal["live", "files", "recording", "simulation", "static"]
#: What a source can answer.
Capability = Literal[
    "plan",
    "explain",
    "pending",
    "decisions",
    "stories",
    "nodes",
    "podgroups",
    "moments",
    "whatIf",
    "configuration",
    "time",
    "report",
    "room",
    "devices",
    "use",
]


class SourceRecord(Record, frozen=True, kw_only=True, omit_defaults=False):
    """The source of the data, and which questions it can answer."""

    kind: str = "Source"
    mode: Mode
    title: str
    scheduler_name: str = ""
    version: str = ""
    can: tuple[Capability, ...]
    #: Capability -> why it is not available, for users.
    why_not: dict[str, str] = msgspec.field(default_factory=dict)
    timelines: tuple[str, ...] = ()
    #: Prices of an hour of nodes, by instance type and capacity type, "" for any.
    prices: dict[str, dict[str, float]] = msgspec.field(default_factory=dict)


class PluginRecord(Record, frozen=True, kw_only=True, omit_defaults=False):
    name: str
    #: 0 at points without weights.
    weight: int = 0
    #: explicit, multiPoint or default.
    from_: str = msgspec.field(name="from")


class PointRecord(Record, frozen=True, kw_only=True, omit_defaults=False):
    """The plugins of an extension point in call order."""

    point: str
    plugins: tuple[PluginRecord, ...]


class LeftOutRecord(Record, frozen=True, kw_only=True, omit_defaults=False):
    """A default plugin that does not run at all or some points."""

    name: str
    why: str


class ArgsRecord(Record, frozen=True, kw_only=True, omit_defaults=False):
    name: str
    value: Any


class ProfileRecord(Record, frozen=True, kw_only=True, omit_defaults=False):
    scheduler_name: str
    #: 0: the reference's adaptive default.
    percentage_of_nodes_to_score: int = 0
    points: tuple[PointRecord, ...]
    left_out: tuple[LeftOutRecord, ...] = ()
    args: tuple[ArgsRecord, ...] = ()


class ConfigurationRecord(Record, frozen=True, kw_only=True, omit_defaults=False):
    kind: str = "Configuration"
    profiles: tuple[ProfileRecord, ...]
    extenders: tuple[dict[str, Any], ...] = ()
    #: The whole configuration as a v1 file, without secrets.
    yaml: str = ""
    #: URLs of the extenders whose password or key is missing from it.
    without_secrets: tuple[str, ...] = ()
    #: The version of kube-scheduler that it behaves as; schedulers from before there was a choice behave as 1.36.
    emulated_version: str = str(V1_36)
    #: Feature gates that differ from that version's defaults.
    gates: dict[str, bool] = msgspec.field(default_factory=dict)


def configuration_record(
    configuration: Configuration, plugins: Declarations, features: FeatureGates
) -> ConfigurationRecord:
    """A plugin that is named with its default weight counts as enabled by default."""
    written = configuration.shown()
    given = [{**profile, "plugins": _given(profile, plugins, features)} for profile in written["profiles"]]
    loaded = Loaded(configuration=configuration, fields={**written, "profiles": given}, upgrade=None)
    profiles = effective_profiles(loaded, plugins, features)
    return ConfigurationRecord(
        profiles=tuple(_profile(one, found) for one, found in zip(profiles, written["profiles"], strict=True)),
        extenders=tuple(written.get("extenders") or ()),
        yaml=to_yaml(written),
        without_secrets=tuple(one.url_prefix for one in map(_shown, configuration.extenders) if one is not None),
        emulated_version=str(features.emulated_version),
        gates=dict(sorted(features.gates.items() - default_features(features.emulated_version).gates.items())),
    )


def _shown(extender: Extender) -> Extender | None:
    """The extender without its secrets; None if it has none."""
    shown = extender.without_secrets()
    return None if shown == extender else shown


def _given(profile: dict[str, Any], plugins: Declarations, features: FeatureGates) -> dict[str, Any]:
    """A profile's settings of plugins beyond the defaults, which are written into every configuration."""
    defaults = dict(enabled_by_default(plugins, features))
    multi_point = profile["plugins"]["multiPoint"]
    named = [one for one in multi_point.get("enabled", ()) if defaults.get(one["name"]) != one["weight"]]
    return {**profile["plugins"], "multiPoint": {**multi_point, "enabled": named}}


def _profile(profile: EffectiveProfile, written: dict[str, Any]) -> ProfileRecord:
    return ProfileRecord(
        scheduler_name=profile.scheduler_name,
        percentage_of_nodes_to_score=written.get("percentageOfNodesToScore") or 0,
        points=tuple(
            PointRecord(
                point=point,
                plugins=tuple(PluginRecord(name=p.name, weight=p.weight or 0, from_=p.origin) for p in plugins),
            )
            for point, plugins in profile.points.items()
        ),
        left_out=tuple(LeftOutRecord(name=name, why=why) for name, why in profile.left_out.items()),
        args=tuple(ArgsRecord(name=one["name"], value=one["args"]) for one in written.get("pluginConfig") or ()),
    )
