"""Build the KubeSchedulerConfiguration for a point of the search space.

The base is an effective configuration with all defaults written out, so the result is complete and loads wherever the
base does.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from stowplan.kube.config.plugins import set_score_weight
from stowplan.kube.config.schema import API_VERSION
from stowplan_lab.tuning.space import RATIO

if TYPE_CHECKING:
    from stowplan_lab.tuning.space import ProfileSpace, SpaceSpec, Value, Values

Document = dict[str, Any]
_FIT, _FIT_ARGS = "NodeResourcesFit", "NodeResourcesFitArgs"


def candidate(base: Document, space: SpaceSpec, values: Values) -> Document:
    """The base with the values in its profiles; a missing profile starts as a copy of the first."""
    document = copy.deepcopy(base)
    profiles = document["profiles"]
    for part in space.profiles:
        profile = next((one for one in profiles if one["schedulerName"] == part.name), None)
        if profile is None:
            profile = {**copy.deepcopy(base["profiles"][0]), "schedulerName": part.name}
            profiles.append(profile)
        _apply(profile, part, values)
    return document


def _apply(profile: Document, space: ProfileSpace, values: Values) -> None:
    head = space.name
    for plugin in space.weights:
        set_score_weight(profile["plugins"], plugin, int(values[f"{head}/weight/{plugin}"]))
    _set_strategy(profile, space, values)
    percentage = values.get(f"{head}/percentageOfNodesToScore")
    if percentage is not None:
        profile["percentageOfNodesToScore"] = percentage


def _set_strategy(profile: Document, space: ProfileSpace, values: Values) -> None:
    kind: Value | None = values.get(f"{space.name}/strategy")
    resources = [{"name": name, "weight": values[f"{space.name}/resource/{name}"]} for name in space.resources]
    if kind is None and not resources:
        return
    strategy = _fit_arguments(profile).setdefault("scoringStrategy", {})
    if resources:
        strategy["resources"] = resources
    if kind is None:
        return
    strategy["type"] = kind
    strategy.pop("requestedToCapacityRatio", None)
    if kind == RATIO:
        shape = [{"utilization": at, "score": values[f"{space.name}/shape/{at}"]} for at in space.shape]
        strategy["requestedToCapacityRatio"] = {"shape": shape}


def _fit_arguments(profile: Document) -> Document:
    entries = profile.setdefault("pluginConfig", [])
    found = next((one for one in entries if one["name"] == _FIT), None)
    if found is None:
        found = {"name": _FIT, "args": {"apiVersion": API_VERSION, "kind": _FIT_ARGS}}
        entries.append(found)
    arguments: Document = found["args"]
    return arguments
