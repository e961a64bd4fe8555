"""Plugins of each extension point, and the origin of each.

`explicit`: the file names it at the point. `multiPoint`: the file names it there. `default`: it runs unless the file
disables it; for a file of an older version, by default in that release.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stowplan.kube.config.declaration import enabled_by_default
from stowplan.kube.config.older.draft import plugin_path
from stowplan.kube.config.plugins import ALL
from stowplan.kube.config.schema import POINTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stowplan.kube.config.declaration import Declarations
    from stowplan.kube.config.features import FeatureGates
    from stowplan.kube.config.load import Loaded
    from stowplan.kube.config.types import PluginRef, Profile

DEFAULT, MULTI_POINT, EXPLICIT = "default", "multiPoint", "explicit"


@dataclass(frozen=True, kw_only=True)
class EffectivePlugin:
    name: str
    #: None at points without weights.
    weight: int | None
    origin: str
    #: A comment of the conversion.
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = {"name": self.name, "from": self.origin}
        if self.weight is not None:
            found["weight"] = self.weight
        return {**found, "note": self.note} if self.note else found


@dataclass(frozen=True, kw_only=True)
class EffectiveProfile:
    scheduler_name: str
    #: Points without plugins are omitted.
    points: dict[str, tuple[EffectivePlugin, ...]]
    #: Default plugins that do not run -> why.
    left_out: dict[str, str]

    def to_dict(self) -> dict[str, Any]:
        return {
            "schedulerName": self.scheduler_name,
            "plugins": {point: [plugin.to_dict() for plugin in plugins] for point, plugins in self.points.items()},
            "leftOut": self.left_out,
        }


def effective_profiles(loaded: Loaded, plugins: Declarations, features: FeatureGates) -> list[EffectiveProfile]:
    given = loaded.fields.get("profiles") or [{}]
    return [
        EffectiveProfile(
            scheduler_name=profile.scheduler_name,
            points={
                point: tuple(_plugin(loaded, f"profiles[{i}]", point, ref, profile, given[i]) for ref in refs)
                for point, refs in profile.points.items()
                if refs
            },
            left_out=dict(_left_out(profile, plugins, features)),
        )
        for i, profile in enumerate(loaded.configuration.profiles)
    ]


def _plugin(
    loaded: Loaded, path: str, point: str, ref: PluginRef, profile: Profile, given: dict[str, Any]
) -> EffectivePlugin:
    specific, multi_point = plugin_path(path, point, ref.name), plugin_path(path, "multiPoint", ref.name)
    is_specific = any(plugin.name == ref.name for plugin in profile.plugins.at(point).enabled)
    if is_specific:
        origin = EXPLICIT
    elif ref.name in _names(given, "multiPoint"):
        origin = MULTI_POINT
    else:
        origin = DEFAULT
    note = ""
    if loaded.upgrade is not None:
        if specific in loaded.upgrade.defaults:
            origin = DEFAULT
        comments = loaded.upgrade.comments.get(specific if is_specific else multi_point, ())
        note = "; ".join(comments)
    weighted = point in ("score", "placementScore")
    return EffectivePlugin(name=ref.name, weight=ref.weight if weighted else None, origin=origin, note=note)


def _names(given: dict[str, Any], point: str) -> set[str]:
    enabled = given.get("plugins", {}).get(point, {}).get("enabled", ())
    return {plugin.get("name", "") for plugin in enabled}


def _left_out(profile: Profile, plugins: Declarations, features: FeatureGates) -> Iterator[tuple[str, str]]:
    """Default plugins that the profile disables, at all or some of their points."""
    running = {ref.name: set[str]() for refs in profile.points.values() for ref in refs}
    for point, refs in profile.points.items():
        for ref in refs:
            running[ref.name].add(point)
    off = {plugin.name for plugin in profile.plugins.multi_point.disabled}
    for name, _ in enabled_by_default(plugins, features):
        missing = [point for point in POINTS if point in plugins[name].points - running.get(name, set())]
        if not missing:
            continue
        if name in running:
            yield name, f"disabled at {', '.join(missing)}"
        elif name in off or ALL in off:
            yield name, "disabled at multiPoint"
        else:
            yield name, f"disabled at {', '.join(missing)}"
