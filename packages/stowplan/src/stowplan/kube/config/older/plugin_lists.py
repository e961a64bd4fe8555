"""Expand plugin lists of older releases by that release's merge rules.

The result disables multiPoint's own defaults and names every plugin at every point, so that order and weights stay as
they were, whatever the current default profile has.
"""

from collections.abc import Iterator, Mapping, Sequence

from stowplan.kube.config.older.draft import Draft, Json, plugin_path
from stowplan.kube.config.schema import POINTS

# Default plugins of older releases, with order and weight.
#
# Up to v1beta2 every extension point had a list of its own. A converted profile gets these lists in full, so that it
# places pods as before: the current default profile has other weights. Names are those of the release.
#
# Upstream: pkg/scheduler/algorithmprovider/registry.go (1.18 to 1.21),
# pkg/scheduler/apis/config/v1beta{1,2}/default_plugins.go.

#: Extension point -> (plugin, weight) in order; 0 at points without weights.
Lists = Mapping[str, tuple[tuple[str, int], ...]]


def _names(text: str) -> tuple[tuple[str, int], ...]:
    pairs = (word.partition("=") for word in text.split())
    return tuple((name, int(weight or 0)) for name, _, weight in pairs)


_FIXED = {
    # Parity: not in the lists of these releases, which had no gated pods; but a gated pod must not be placed.
    "preEnqueue": _names("SchedulingGates"),
    "queueSort": _names("PrioritySort"),
    "postFilter": _names("DefaultPreemption"),
    "bind": _names("DefaultBinder"),
}
_VOLUMES = "VolumeRestrictions EBSLimits GCEPDLimits NodeVolumeLimits AzureDiskLimits VolumeBinding VolumeZone"

#: 1.18 with its default gates: EvenPodsSpread is on.
V1ALPHA2: Lists = {
    **_FIXED,
    "preFilter": _names("NodeResourcesFit NodePorts InterPodAffinity PodTopologySpread"),
    "filter": _names(
        "NodeUnschedulable NodeResourcesFit NodeName NodePorts NodeAffinity VolumeRestrictions TaintToleration "
        "EBSLimits GCEPDLimits NodeVolumeLimits AzureDiskLimits VolumeBinding VolumeZone InterPodAffinity "
        "PodTopologySpread"
    ),
    "preScore": _names("InterPodAffinity DefaultPodTopologySpread TaintToleration PodTopologySpread"),
    "score": _names(
        "NodeResourcesBalancedAllocation=1 ImageLocality=1 InterPodAffinity=1 NodeResourcesLeastAllocated=1 "
        "NodeAffinity=1 NodePreferAvoidPods=10000 DefaultPodTopologySpread=1 TaintToleration=1 PodTopologySpread=1"
    ),
    # Volumes were reserved and bound outside of plugins.
    "reserve": _names("VolumeBinding"),
    "preBind": _names("VolumeBinding"),
}

#: 1.20 to 1.22.
V1BETA1: Lists = {
    **_FIXED,
    "preFilter": _names("NodeResourcesFit NodePorts PodTopologySpread InterPodAffinity VolumeBinding NodeAffinity"),
    "filter": _names(
        "NodeUnschedulable NodeName TaintToleration NodeAffinity NodePorts NodeResourcesFit "
        f"{_VOLUMES} PodTopologySpread InterPodAffinity"
    ),
    "preScore": _names("InterPodAffinity PodTopologySpread TaintToleration NodeAffinity"),
    "score": _names(
        "NodeResourcesBalancedAllocation=1 ImageLocality=1 InterPodAffinity=1 NodeResourcesLeastAllocated=1 "
        "NodeAffinity=1 NodePreferAvoidPods=10000 PodTopologySpread=2 TaintToleration=1"
    ),
    "reserve": _names("VolumeBinding"),
    "preBind": _names("VolumeBinding"),
}

V1BETA2: Lists = {
    **V1BETA1,
    "preFilter": _names(
        "NodeResourcesFit NodePorts VolumeRestrictions PodTopologySpread InterPodAffinity VolumeBinding NodeAffinity"
    ),
    "score": _names(
        "NodeResourcesBalancedAllocation=1 ImageLocality=1 InterPodAffinity=1 NodeResourcesFit=1 NodeAffinity=1 "
        "PodTopologySpread=2 TaintToleration=1"
    ),
}

#: What ClusterAutoscalerProvider had instead of a default plugin.
_PROVIDERS = {
    "DefaultProvider": {},
    "ClusterAutoscalerProvider": {"NodeResourcesLeastAllocated": "NodeResourcesMostAllocated"},
}
PROVIDERS = tuple(_PROVIDERS)


def of_provider(lists: Lists, provider: str) -> Lists:
    other = _PROVIDERS[provider]
    return {
        point: tuple((other.get(name, name), weight) for name, weight in plugins) for point, plugins in lists.items()
    }


#: In-tree plugins that are split over several points today: if one runs at the first, it has to run at the second.
HALVES = (
    ("filter", "preFilter"),
    ("score", "preScore"),
    ("postFilter", "preEnqueue"),
)
SPLIT_PLUGINS = frozenset(
    name for lists in (V1ALPHA2, V1BETA1, V1BETA2) for plugins in lists.values() for name, _ in plugins
)


ALL = "*"


def make_explicit(draft: Draft, lists: Lists, *, in_place: bool) -> None:
    """Merge default lists into each profile; `in_place`: an enabled default keeps its position."""
    if draft.has_explicit_plugins:
        return
    draft.fields["profiles"] = draft.fields.get("profiles") or [{}]
    for path, profile in draft.profiles():
        custom = profile.get("plugins", {})
        for point, plugin_set in custom.items():
            names = (plugin.get("name", "") for plugin in plugin_set.get("disabled", ()))
            draft.disabled[path, point] = frozenset(names)
        profile["plugins"] = _explicit(custom, lists, in_place=in_place)
        draft.defaults.update(_added(path, custom, profile["plugins"]))
        text = f"the default plugins of {draft.origin} written out: those of v1 have other weights and another order"
        draft.explain(f"{path}.plugins", text)
    draft.has_explicit_plugins = True


def _explicit(custom: Json, lists: Lists, *, in_place: bool) -> Json:
    multi_point = custom.get("multiPoint", {})
    plugins: Json = {"multiPoint": {"disabled": [{"name": ALL}]}}
    if multi_point.get("enabled"):
        plugins["multiPoint"]["enabled"] = multi_point["enabled"]
    for point in POINTS:
        own = custom.get(point, {})
        if point == "multiPoint" or not (point in lists or own):
            continue
        merged = {"enabled": _merge(lists.get(point, ()), own, in_place=in_place)}
        if own.get("disabled") and multi_point.get("enabled"):
            # This also disables what the file's multiPoint would add.
            merged["disabled"] = own["disabled"]
        plugins[point] = merged
    return plugins


def _merge(defaults: Sequence[tuple[str, int]], own: Json, *, in_place: bool) -> list[Json]:
    disabled = {plugin.get("name") for plugin in own.get("disabled", ())}
    enabled: list[Json] = list(own.get("enabled", ()))
    last: dict[str, Json] = {plugin.get("name", ""): plugin for plugin in enabled} if in_place else {}
    merged = [
        last.get(name) or _entry(name, weight)
        for name, weight in defaults
        if ALL not in disabled and name not in disabled
    ]
    taken = {id(plugin) for plugin in merged}
    return [*merged, *(plugin for plugin in enabled if id(plugin) not in taken)]


def _added(path: str, custom: Json, explicit: Json) -> Iterator[str]:
    """The paths of plugins that the file itself does not enable."""
    for point, plugin_set in explicit.items():
        own = {plugin.get("name") for plugin in custom.get(point, {}).get("enabled", ())}
        for plugin in plugin_set.get("enabled", ()):
            if plugin.get("name") not in own:
                yield plugin_path(path, point, plugin["name"])


def _entry(name: str, weight: int) -> Json:
    return {"name": name, "weight": weight} if weight else {"name": name}


def complete_halves(draft: Draft) -> None:
    """Enable in-tree plugins at all points that they need today, unless the file forbids it."""
    for path, profile in draft.profiles() if draft.has_explicit_plugins else ():
        plugins = profile["plugins"]
        for first, second in HALVES:
            disabled = draft.disabled.get((path, second), frozenset())
            for name in list(_needed_at(draft, plugins, first, second, disabled)):
                plugins.setdefault(second, {}).setdefault("enabled", []).append({"name": name})
                if plugin_path(path, first, name) in draft.defaults:
                    draft.defaults.add(plugin_path(path, second, name))
                draft.explain(plugin_path(path, second, name), f"{name} needs this point today to work at {first}")


def _needed_at(
    draft: Draft, plugins: Mapping[str, Json], first: str, second: str, disabled: frozenset[str]
) -> Iterator[str]:
    if ALL in disabled:
        return
    there = {*disabled, *(plugin.get("name", "") for plugin in plugins.get(second, {}).get("enabled", ()))}
    for plugin in plugins.get(first, {}).get("enabled", ()):
        name = plugin.get("name", "")
        declaration = draft.plugins.get(name)
        if name in SPLIT_PLUGINS and name not in there and declaration is not None and second in declaration.points:
            there.add(name)
            yield name
