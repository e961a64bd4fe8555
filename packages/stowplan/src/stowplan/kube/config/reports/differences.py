"""Differences in effect between two configurations.

Ignores the text, the order of profiles, the order of score plugins, and fields without effect, such as the durations of
a disabled leader election.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from stowplan.kube.config.config_loading import Loaded
from stowplan.kube.config.configuration import Configuration, PluginRef, Profile
from stowplan.kube.config.declaration import Declarations, enabled_by_default
from stowplan.kube.config.features import FeatureGates
from stowplan.kube.config.older.draft import plugin_path
from stowplan.kube.config.plugins import ALL
from stowplan.kube.config.schema import points_at

#: Points whose plugins have no relevant order.
_UNORDERED = ("preScore", "score", "placementScore")
_WEIGHTED = ("score", "placementScore")


@dataclass(frozen=True, kw_only=True)
class Difference:
    #: The subject, e.g. `profile default-scheduler: score: NodeAffinity: weight`.
    path: str
    #: None: not present on that side.
    left: Any
    right: Any

    def to_dict(self) -> dict[str, Any]:
        return {"path": self.path, "left": self.left, "right": self.right}


def differences(left: Configuration, right: Configuration) -> list[Difference]:
    return [*_settings(left, right), *_profiles(left, right), *_extenders(left, right)]


# --- settings


def _settings(left: Configuration, right: Configuration) -> Iterator[Difference]:
    ours, theirs = left.to_dict(), right.to_dict()
    for name in ("apiVersion", "kind", "profiles", "extenders", "percentageOfNodesToScore"):
        for one in (ours, theirs):
            one.pop(name, None)
    # What has no effect on one side is no difference of its own.
    if not (ours["leaderElection"]["leaderElect"] and theirs["leaderElection"]["leaderElect"]):
        for one in (ours, theirs):
            one["leaderElection"] = {"leaderElect": one["leaderElection"]["leaderElect"]}
            one.pop("delayCacheUntilActive", None)
    if not (ours["enableProfiling"] and theirs["enableProfiling"]):
        for one in (ours, theirs):
            one.pop("enableContentionProfiling", None)
    yield from _compared("", ours, theirs)


def _compared(path: str, left: Any, right: Any) -> Iterator[Difference]:
    """Compare JSON, leaf by leaf."""
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        for key in dict.fromkeys((*left, *right)):
            yield from _compared(f"{path}.{key}" if path else key, left.get(key), right.get(key))
    elif isinstance(left, list) and isinstance(right, list) and left != right:
        for i, (one, other) in enumerate(zip_longest(left, right)):
            yield from _compared(f"{path}[{i}]", one, other)
    elif left != right or isinstance(left, bool) != isinstance(right, bool):
        yield Difference(path=path, left=left, right=right)


# --- profiles


def _profiles(left: Configuration, right: Configuration) -> Iterator[Difference]:
    ours = {profile.scheduler_name: profile for profile in left.profiles}
    theirs = {profile.scheduler_name: profile for profile in right.profiles}
    if len(ours) == len(theirs) == 1 and ours.keys() != theirs.keys():
        # Most likely the same scheduler under another name.
        (name, own), (other, its) = *ours.items(), *theirs.items()
        yield Difference(path="profiles[0].schedulerName", left=name, right=other)
        yield from _profile(f"profile {name}", (left, own), (right, its))
        return
    for name in dict.fromkeys((*ours, *theirs)):
        path = f"profile {name}"
        if name in ours and name in theirs:
            yield from _profile(path, (left, ours[name]), (right, theirs[name]))
        else:
            present = {False: None, True: "present"}
            yield Difference(path=path, left=present[name in ours], right=present[name in theirs])


def _profile(
    path: str, left: tuple[Configuration, Profile], right: tuple[Configuration, Profile]
) -> Iterator[Difference]:
    ours, theirs = left[1], right[1]
    yield from _compared(f"{path}: percentageOfNodesToScore", _percentage(*left), _percentage(*right))
    for point in dict.fromkeys((*ours.points, *theirs.points)):
        yield from _point(f"{path}: {point}", point, _weights(ours, point), _weights(theirs, point))
    first, second = _arguments(ours), _arguments(theirs)
    # If only one side runs the plugin, that is reported instead.
    for plugin in sorted(_running(ours) & _running(theirs)):
        yield from _compared(f"{path}: arguments of {plugin}", first.get(plugin), second.get(plugin))


def _percentage(configuration: Configuration, profile: Profile) -> int:
    own = profile.percentage_of_nodes_to_score
    return configuration.percentage_of_nodes_to_score if own is None else own


def _weights(profile: Profile, point: str) -> dict[str, int]:
    return {ref.name: ref.weight for ref in profile.points.get(point, ())}


def _point(path: str, point: str, left: dict[str, int], right: dict[str, int]) -> Iterator[Difference]:
    for name in dict.fromkeys((*left, *right)):
        if name not in left or name not in right:
            yield Difference(path=f"{path}: {name}", left=_runs(point, left, name), right=_runs(point, right, name))
        elif left[name] != right[name]:
            yield Difference(path=f"{path}: {name}: weight", left=left[name], right=right[name])
    ours = [name for name in left if name in right]
    theirs = [name for name in right if name in left]
    if point not in _UNORDERED and ours != theirs:
        yield Difference(path=f"{path}: order", left=list(left), right=list(right))


def _runs(point: str, plugins: dict[str, int], name: str) -> str | None:
    if name not in plugins:
        return None
    return f"weight {plugins[name]}" if point in _WEIGHTED else "runs"


def _running(profile: Profile) -> set[str]:
    return {ref.name for refs in profile.points.values() for ref in refs}


def _arguments(profile: Profile) -> dict[str, Any]:
    """The arguments as data."""
    written = Configuration(profiles=(profile,)).to_dict()["profiles"][0]
    return {entry["name"]: entry.get("args") for entry in written.get("pluginConfig", ())}


# --- extenders


def _extenders(left: Configuration, right: Configuration) -> Iterator[Difference]:
    ours = left.to_dict().get("extenders", [])
    theirs = right.to_dict().get("extenders", [])
    yield from _compared("extenders", ours, theirs)


# Plugins of each extension point, and the origin of each.
#
# `explicit`: the file names it at the point. `multiPoint`: the file names it there. `default`: it runs unless the
# file disables it; for a file of an older version, by default in that release.

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
    known = points_at(features.emulated_version)
    for name, _ in enabled_by_default(plugins, features):
        missing = [point for point in known if point in plugins[name].points - running.get(name, set())]
        if not missing:
            continue
        if name in running:
            yield name, f"disabled at {', '.join(missing)}"
        elif name in off or ALL in off:
            yield name, "disabled at multiPoint"
        else:
            yield name, f"disabled at {', '.join(missing)}"
