"""The configuration in force as the page shows it: which plugins run where, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from stowplan.config.reports.effective import effective_profiles
from stowplan.page.records import (
    ArgsRecord,
    ConfigurationRecord,
    LeftOutRecord,
    PluginRecord,
    PointRecord,
    ProfileRecord,
)

if TYPE_CHECKING:
    from stowplan.config import Declarations, FeatureGates
    from stowplan.config.load import Loaded
    from stowplan.config.reports.effective import EffectiveProfile


def configuration_record(loaded: Loaded, plugins: Declarations, features: FeatureGates) -> ConfigurationRecord:
    written = loaded.configuration.to_dict()
    profiles = effective_profiles(loaded, plugins, features)
    return ConfigurationRecord(
        profiles=tuple(_profile(one, found) for one, found in zip(profiles, written["profiles"], strict=True)),
        extenders=tuple(written.get("extenders") or ()),
        yaml=yaml.safe_dump(written, sort_keys=False, allow_unicode=True),
    )


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
