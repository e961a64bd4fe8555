"""Differences in effect between two configurations.

Ignores the text, the order of profiles, the order of score plugins, and fields without effect, such as the durations of
a disabled leader election.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from stowplan.kube.config.types import Configuration

if TYPE_CHECKING:
    from stowplan.kube.config.types import Profile

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
    yield from _compared("", _effective_settings(left), _effective_settings(right))


def _effective_settings(configuration: Configuration) -> dict[str, Any]:
    found = configuration.to_dict()
    for name in ("apiVersion", "kind", "profiles", "extenders", "percentageOfNodesToScore"):
        found.pop(name, None)
    if not found["leaderElection"]["leaderElect"]:
        found["leaderElection"] = {"leaderElect": False}
        found.pop("delayCacheUntilActive", None)
    if not found["enableProfiling"]:
        found.pop("enableContentionProfiling", None)
    return found


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
