"""Convert a Policy to a profile.

Predicates become filters, priorities become scores, and a profile has only these plugins. The rules are those of 1.20
to 1.22, plus names that only 1.16 had. The result is in v1beta1 terms, so that plugins removed since then are handled
in one place (`retired_plugins.py`).

Upstream: pkg/scheduler/factory.go, pkg/scheduler/framework/plugins/legacy_registry.go of 1.20 to 1.22.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from stowplan.kube.api.durations import Duration
from stowplan.kube.api.field_errors import aggregate, go_quote
from stowplan.kube.config.config_errors import ConfigError, did_you_mean, invalid
from stowplan.kube.config.older.draft import Draft, Json, args_of, config_path, plugin_path
from stowplan.kube.config.older.retired_plugins import REFUSED

# Map policy priorities to plugins.
#
# Plugins score in alphabetical order of the priorities' names. Plugin names are those of 1.21.
#
# Upstream: pkg/scheduler/framework/plugins/legacy_registry.go (1.18 to 1.22), pkg/scheduler/algorithm/priorities
# (1.16).

#: Priority -> plugin; None needs no plugin.
PRIORITIES: Mapping[str, str | None] = {
    "BalancedResourceAllocation": "NodeResourcesBalancedAllocation",
    "EqualPriority": None,
    "EvenPodsSpreadPriority": "PodTopologySpread",
    "ImageLocalityPriority": "ImageLocality",
    "InterPodAffinityPriority": "InterPodAffinity",
    "LeastRequestedPriority": "NodeResourcesLeastAllocated",
    "MostRequestedPriority": "NodeResourcesMostAllocated",
    "NodeAffinityPriority": "NodeAffinity",
    "NodePreferAvoidPodsPriority": "NodePreferAvoidPods",
    "RequestedToCapacityRatio": "RequestedToCapacityRatio",
    "RequestedToCapacityRatioPriority": "RequestedToCapacityRatio",
    "ResourceLimitsPriority": "NodeResourceLimits",
    "SelectorSpreadPriority": "PodTopologySpread",
    "ServiceSpreadingPriority": "PodTopologySpread",
    "TaintTolerationPriority": "TaintToleration",
}
#: The default of a policy without `priorities`, with weights.
DEFAULT_PRIORITIES: Mapping[str, int] = {
    "SelectorSpreadPriority": 1,
    "InterPodAffinityPriority": 1,
    "LeastRequestedPriority": 1,
    "BalancedResourceAllocation": 1,
    "NodePreferAvoidPodsPriority": 10000,
    "NodeAffinityPriority": 1,
    "TaintTolerationPriority": 1,
    "ImageLocalityPriority": 1,
    "EvenPodsSpreadPriority": 2,
}
#: Priorities that spread the pods of a service or controller.
SPREADING = ("SelectorSpreadPriority", "ServiceSpreadingPriority")
#: The shape of RequestedToCapacityRatioPriority in 1.16: lower utilization scores higher.
DEFAULT_SHAPE = ({"utilization": 0, "score": 10}, {"utilization": 100, "score": 0})
#: Plugins that also run at PreScore.
PRE_SCORING = frozenset({"InterPodAffinity", "NodeAffinity", "PodTopologySpread", "TaintToleration"})


# Map policy predicates to plugins.
#
# They run in the order of this table, whatever the order in the policy. Plugin names are those of 1.21; `versions.py`
# and `retired_plugins.py` convert them.
#
# Upstream: pkg/scheduler/framework/plugins/legacy_registry.go (1.18 to 1.22), pkg/scheduler/algorithm/predicates
# (1.16).

#: Plugin -> extension points.
Runs = Mapping[str, tuple[str, ...]]

_FIT: Runs = {"NodeResourcesFit": ("preFilter", "filter")}
_NAME: Runs = {"NodeName": ("filter",)}
_PORTS: Runs = {"NodePorts": ("preFilter", "filter")}
_SELECTOR: Runs = {"NodeAffinity": ("preFilter", "filter")}
_TAINTS: Runs = {"TaintToleration": ("filter",)}

PREDICATES: Mapping[str, Runs] = {
    "CheckNodeCondition": _TAINTS,
    "CheckNodeUnschedulable": {"NodeUnschedulable": ("filter",)},
    "GeneralPredicates": {**_FIT, **_NAME, **_PORTS, **_SELECTOR},
    "HostName": _NAME,
    "PodFitsHostPorts": _PORTS,
    "PodFitsPorts": _PORTS,
    "MatchNodeSelector": _SELECTOR,
    "PodFitsResources": _FIT,
    "NoDiskConflict": {"VolumeRestrictions": ("filter",)},
    "PodToleratesNodeTaints": _TAINTS,
    "PodToleratesNodeNoExecuteTaints": _TAINTS,
    "CheckNodeLabelPresence": {"NodeLabel": ("filter",)},
    "CheckServiceAffinity": {"ServiceAffinity": ("preFilter", "filter")},
    "MaxEBSVolumeCount": {"EBSLimits": ("filter",)},
    "MaxGCEPDVolumeCount": {"GCEPDLimits": ("filter",)},
    "MaxCSIVolumeCountPred": {"NodeVolumeLimits": ("filter",)},
    "MaxAzureDiskVolumeCount": {"AzureDiskLimits": ("filter",)},
    "MaxCinderVolumeCount": {"CinderLimits": ("filter",)},
    "CheckVolumeBinding": {"VolumeBinding": ("preFilter", "filter", "reserve", "preBind")},
    "NoVolumeZoneConflict": {"VolumeZone": ("filter",)},
    "CheckNodeMemoryPressure": _TAINTS,
    "CheckNodePIDPressure": _TAINTS,
    "CheckNodeDiskPressure": _TAINTS,
    "EvenPodsSpread": {"PodTopologySpread": ("preFilter", "filter")},
    "MatchInterPodAffinity": {"InterPodAffinity": ("preFilter", "filter")},
}
#: Run even if the policy does not name them.
MANDATORY = ("CheckNodeUnschedulable", "PodToleratesNodeTaints")
#: The default of a policy without `predicates`.
DEFAULT_PREDICATES = (
    "NoVolumeZoneConflict",
    "MaxEBSVolumeCount",
    "MaxGCEPDVolumeCount",
    "MaxAzureDiskVolumeCount",
    "MaxCSIVolumeCountPred",
    "MatchInterPodAffinity",
    "NoDiskConflict",
    "GeneralPredicates",
    "PodToleratesNodeTaints",
    "CheckVolumeBinding",
    "CheckNodeUnschedulable",
    "EvenPodsSpread",
)
#: Since 1.17 conditions of nodes are taints, which TaintToleration handles.
OF_CONDITIONS = ("CheckNodeCondition", "CheckNodeMemoryPressure", "CheckNodePIDPressure", "CheckNodeDiskPressure")


_MAX_WEIGHT = (2**63 - 1) // 10
_MAX_SYMMETRIC_WEIGHT = 100
_NO_CONDITIONS = "reads taints: since 1.17 a node's conditions are taints"


def convert_policy(draft: Draft, policy: Json, profile: Json) -> None:
    """Write a policy's plugins to a profile, and its extenders to the configuration."""
    try:
        _check(policy)
        plan = _Plan(draft, profile)
        for point, name in (
            # Parity: not in any policy, because there were no gated pods; but a gated pod must not be placed.
            ("preEnqueue", "SchedulingGates"),
            ("queueSort", "PrioritySort"),
            ("postFilter", "DefaultPreemption"),
            ("bind", "DefaultBinder"),
        ):
            plan.enable(point, name, "every policy")
        _add_predicates(plan, policy.get("predicates"))
        _add_priorities(plan, policy)
    except ConfigError as error:
        raise error.prefixed("couldn't create scheduler from policy: ") from None
    if policy.get("extenders"):
        draft.fields["extenders"] = [_extender(extender) for extender in policy["extenders"]]
        draft.explain("extenders", "those of the policy")
    if policy.get("alwaysCheckAllPredicates"):
        draft.warn("", "alwaysCheckAllPredicates left out: a node is refused by the first plugin that objects to it")
    draft.explain("profiles[0].plugins", "what the policy names, and nothing else")
    draft.has_explicit_plugins = True


@dataclass
class _Plan:
    """Collects the plugins of the profile."""

    draft: Draft
    profile: Json
    path: str = "profiles[0]"
    _there: set[tuple[str, str]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.profile["plugins"] = {"multiPoint": {"disabled": [{"name": "*"}]}}

    def enable(self, point: str, plugin: str, why: str, weight: int = 0) -> None:
        """Add a plugin at a point, unless it is already there."""
        if plugin in REFUSED:
            raise ConfigError(f"{why} {REFUSED[plugin]}")
        self.draft.explain(plugin_path(self.path, point, plugin), why)
        if (point, plugin) in self._there:
            return
        self._there.add((point, plugin))
        entry = {"name": plugin, "weight": weight} if weight else {"name": plugin}
        self.profile["plugins"].setdefault(point, {}).setdefault("enabled", []).append(entry)

    def run(self, runs: Runs, why: str) -> None:
        for plugin, points in runs.items():
            for point in points:
                self.enable(point, plugin, why)

    def args(self, plugin: str, why: str) -> Json:
        args = args_of(self.profile, plugin)
        self.draft.explain(config_path(self.path, plugin), why)
        return args


# --- what is wrong with it


def _check(policy: Json) -> None:
    problems = [*_priority_errors(policy.get("priorities") or ()), *_weight_errors(policy)]
    if problems:
        raise ConfigError(aggregate(problems))


def _weight_errors(policy: Json) -> Iterator[str]:
    weight = policy.get("hardPodAffinitySymmetricWeight", 0)
    if not 0 <= weight <= _MAX_SYMMETRIC_WEIGHT:
        yield invalid("hardPodAffinitySymmetricWeight", weight, "not in valid range [0-100]")


def _priority_errors(listed: Iterable[Json]) -> Iterator[str]:
    first: dict[str, Json] = {}
    for priority in listed:
        name = priority.get("name", "")
        if not 0 < priority.get("weight", 0) < _MAX_WEIGHT:
            yield f"priority {name} should have a positive weight applied to it or it has overflown"
        argument = priority.get("argument")
        if argument is None:
            continue
        if not argument:
            yield f"no priority arguments set for priority {name}"
        for kind in argument:
            yield from _same_kind_errors(kind, priority, first.setdefault(kind, priority))


def _same_kind_errors(kind: str, priority: Json, first: Json) -> Iterator[str]:
    name, other = go_quote(priority.get("name", "")), go_quote(first.get("name", ""))
    if priority is first:
        return
    if kind == "requestedToCapacityRatioArguments":
        yield f'priority {name} redeclares custom priority "RequestedToCapacityRatio", from: {other}'
    elif priority.get("weight") != first.get("weight"):
        yield f"{kind[0].upper()}{kind[1:]}  priority {name} has a different weight with {other}"


def _only_argument(what: str, entry: Json) -> tuple[str, Any]:
    """The single argument of an entry whose name is arbitrary."""
    argument, name = entry.get("argument"), entry.get("name", "")
    if argument is None:
        known = PREDICATES if what == "predicate" else PRIORITIES
        raise ConfigError(f"{what} type not found for {go_quote(name)}", *did_you_mean(name, known))
    if len(argument) != 1:
        raise ConfigError(f"exactly 1 {what} argument is required, numArgs: {len(argument)}, {what} {name}")
    found: tuple[str, Any] = next(iter(argument.items()))
    return found


# --- predicates


def _add_predicates(plan: _Plan, listed: list[Json] | None) -> None:
    if listed is None:
        names, others = set(DEFAULT_PREDICATES), []
    else:
        names = {entry.get("name", "") for entry in listed}
        others = [entry for entry in listed if entry.get("name", "") not in PREDICATES]
        _warn_of_dropped(plan, "predicates", listed)
    custom = [(entry.get("name", ""), *_only_argument("predicate", entry)) for entry in others]
    for name, runs in PREDICATES.items():
        if name in names or name in MANDATORY:
            plan.run(runs, f"predicate {name}")
        if name in names & {*OF_CONDITIONS}:
            plan.draft.explain(plugin_path(plan.path, "filter", "TaintToleration"), f"{name} {_NO_CONDITIONS}")
        if name == "CheckNodeLabelPresence":
            _add_label_presence(plan, [entry for entry in custom if entry[1] == "labelsPresence"])
        if name == "CheckServiceAffinity":
            _add_service_affinity(plan, [entry for entry in custom if entry[1] == "serviceAffinity"])


def _warn_of_dropped(plan: _Plan, path: str, listed: list[Json]) -> None:
    known = PREDICATES if path == "predicates" else PRIORITIES
    for i, entry in enumerate(listed):
        if entry.get("argument") and entry.get("name") in known:
            # Parity: 1.16 read the argument, 1.20 to 1.22 the name.
            text = f"argument of {entry['name']} left out, as 1.20 did: only under a name of its own it has an effect"
            plan.draft.warn(f"{path}[{i}]", text)


def _add_label_presence(plan: _Plan, entries: list[tuple[str, str, Json]]) -> None:
    for name, _, argument in entries:
        plan.run(PREDICATES["CheckNodeLabelPresence"], f"predicate {name}")
        key = "presentLabels" if argument.get("presence") else "absentLabels"
        args = plan.args("NodeLabel", f"predicate {name}")
        args[key] = [*args.get(key, ()), *argument.get("labels", ())]


def _add_service_affinity(plan: _Plan, entries: list[tuple[str, str, Json]]) -> None:
    for name, _, argument in entries:
        plan.run(PREDICATES["CheckServiceAffinity"], f"predicate {name}")
        args = plan.args("ServiceAffinity", f"predicate {name}")
        args["affinityLabels"] = [*args.get("affinityLabels", ()), *argument.get("labels", ())]


# --- priorities


def _add_priorities(plan: _Plan, policy: Json) -> None:
    listed = policy.get("priorities")
    if listed is None:
        entries: list[Json] = [{"name": name, "weight": weight} for name, weight in DEFAULT_PRIORITIES.items()]
    else:
        # Parity: if a name occurs twice, the last weight counts.
        entries = list({entry.get("name", ""): entry for entry in listed}.values())
        _warn_of_dropped(plan, "priorities", listed)
    custom = {
        id(entry): _only_argument("priority", entry) for entry in entries if entry.get("name", "") not in PRIORITIES
    }
    counts = [kind for kind, _ in custom.values()]
    for entry in sorted(entries, key=lambda entry: entry.get("name", "")):
        name, weight = entry.get("name", ""), entry["weight"]
        if id(entry) in custom:
            kind, argument = custom[id(entry)]
            _CUSTOM[kind](plan, name, argument, weight, counts.count(kind))
        else:
            _add_priority(plan, name, weight, policy)


def _add_priority(plan: _Plan, name: str, weight: int, policy: Json) -> None:
    plugin, why = PRIORITIES[name], f"priority {name}"
    if plugin is None:
        plan.draft.explain("profiles[0].plugins.score", f"{name} gave all nodes the same score")
        return
    if plugin in PRE_SCORING:
        plan.enable("preScore", plugin, why)
    plan.enable("score", plugin, why, weight)
    if name == "EvenPodsSpreadPriority":
        plan.args(plugin, why).setdefault("defaultingType", "List")
    elif name in SPREADING:
        plan.args(plugin, why)["defaultingType"] = "System"
    elif name == "InterPodAffinityPriority" and policy.get("hardPodAffinitySymmetricWeight"):
        plan.args(plugin, "hardPodAffinitySymmetricWeight")["hardPodAffinityWeight"] = policy[
            "hardPodAffinitySymmetricWeight"
        ]
    elif name == "RequestedToCapacityRatioPriority":
        plan.args(plugin, why).setdefault("shape", [dict(point) for point in DEFAULT_SHAPE])


def _add_label_preference(plan: _Plan, name: str, argument: Json, weight: int, count: int) -> None:
    plan.enable("score", "NodeLabel", f"priority {name}", weight * count)
    key = "presentLabelsPreference" if argument.get("presence") else "absentLabelsPreference"
    args = plan.args("NodeLabel", f"priority {name}")
    args[key] = [*args.get(key, ()), argument.get("label", "")]


def _add_service_anti_affinity(plan: _Plan, name: str, argument: Json, weight: int, count: int) -> None:
    plan.enable("score", "ServiceAffinity", f"priority {name}", weight * count)
    args = plan.args("ServiceAffinity", f"priority {name}")
    key = "antiAffinityLabelsPreference"
    args[key] = [*args.get(key, ()), argument.get("label", "")]


def _add_capacity_ratio(plan: _Plan, name: str, argument: Json, weight: int, count: int) -> None:
    plan.enable("score", "RequestedToCapacityRatio", f"priority {name}", weight)
    args = plan.args("RequestedToCapacityRatio", f"priority {name}")
    for key in ("shape", "resources"):
        if key in argument:
            args[key] = argument[key]


_CUSTOM = {
    "labelPreference": _add_label_preference,
    "serviceAntiAffinity": _add_service_anti_affinity,
    "requestedToCapacityRatioArguments": _add_capacity_ratio,
}


# --- extenders


def _extender(extender: Json) -> Json:
    today = {("enableHTTPS" if name == "enableHttps" else name): value for name, value in extender.items()}
    if "httpTimeout" in today:
        today["httpTimeout"] = str(Duration(today["httpTimeout"]))
    return today
