"""Convert a KubeSchedulerConfiguration version by version until it is v1.

Each step removes the differences between its version and the next. Steps before v1beta3 also write out the release's
default plugins (`plugin_lists.py`), unless an earlier step did.
"""

from collections.abc import Callable

from stowplan.kube.api.field_errors import go_quote
from stowplan.kube.config.config_errors import ConfigError, invalid
from stowplan.kube.config.older import plugin_lists
from stowplan.kube.config.older.draft import Draft, Json, args_of, config_path, given_args
from stowplan.kube.config.older.older_schemas import VERSIONS
from stowplan.kube.config.older.plugin_lists import complete_halves, make_explicit
from stowplan.kube.config.older.retired_plugins import check_removed, rename_plugins, use_scoring_strategies
from stowplan.kube.config.schema import API_VERSION

_MAX_SYMMETRIC_WEIGHT = 100


def to_v1(draft: Draft, version: str) -> None:
    """Convert data of this version in place; raise ConfigError for settings that v1 cannot express."""
    for step in _STEPS[VERSIONS.index(version) :]:
        step(draft)
    rename_plugins(draft)
    complete_halves(draft)
    draft.fields["apiVersion"] = API_VERSION
    draft.explain("apiVersion", f"was {draft.origin}")


# --- v1alpha1: one scheduler, an algorithm, and no profiles


def to_profiles(draft: Draft) -> None:
    fields = draft.fields
    profile: Json = {}
    for name in ("schedulerName", "plugins", "pluginConfig"):
        if name in fields:
            profile[name] = fields.pop(name)
    if "postFilter" in profile.get("plugins", {}):
        profile["plugins"]["preScore"] = profile["plugins"].pop("postFilter")
        draft.explain("profiles[0].plugins.preScore", "was postFilter, which is another point today")
    _symmetric_weight(draft, profile)
    fields["profiles"] = [profile]
    draft.explain("profiles", "schedulerName, plugins and pluginConfig stood at the top")


def _symmetric_weight(draft: Draft, profile: Json) -> None:
    weight = draft.fields.pop("hardPodAffinitySymmetricWeight", None)
    if weight is None:
        return
    _check_symmetric_weight(weight)
    args_of(profile, "InterPodAffinity").setdefault("hardPodAffinityWeight", weight)
    draft.explain(config_path("profiles[0]", "InterPodAffinity"), "was hardPodAffinitySymmetricWeight")


def _check_symmetric_weight(weight: int) -> None:
    if not 0 <= weight <= _MAX_SYMMETRIC_WEIGHT:
        raise ConfigError(invalid("hardPodAffinitySymmetricWeight", weight, "not in valid range [0-100]"))


# --- v1alpha2: preemption, volumes and locks outside of plugins


def _from_v1alpha2(draft: Draft) -> None:
    for path, profile in draft.profiles():
        _merge_unreserve(draft, path, profile)
    make_explicit(draft, plugin_lists.of_provider(plugin_lists.V1ALPHA2, draft.provider), in_place=False)
    _disable_preemption(draft)
    _bind_timeout(draft)
    _lock_names(draft)


def _merge_unreserve(draft: Draft, path: str, profile: Json) -> None:
    plugins = profile.get("plugins", {})
    unreserve = plugins.pop("unreserve", None)
    if unreserve is None:
        return
    reserve = plugins.setdefault("reserve", {})
    for key, listed in unreserve.items():
        there = {plugin.get("name") for plugin in reserve.get(key, ())}
        added = [plugin for plugin in listed if plugin.get("name") not in there]
        reserve[key] = [*reserve.get(key, ()), *added]
    draft.explain(f"{path}.plugins.reserve", "unreserve is the other half of the same plugins today")


def _disable_preemption(draft: Draft) -> None:
    if not draft.fields.pop("disablePreemption", False):
        return
    for path, profile in draft.profiles():
        plugin_set = profile["plugins"]["postFilter"]
        plugin_set["enabled"] = [plugin for plugin in plugin_set["enabled"] if plugin["name"] != "DefaultPreemption"]
        draft.explain(f"{path}.plugins.postFilter", "disablePreemption: without DefaultPreemption nothing preempts")


def _bind_timeout(draft: Draft) -> None:
    seconds = draft.fields.pop("bindTimeoutSeconds", None)
    if seconds is None:
        return
    for path, profile in draft.profiles():
        args_of(profile, "VolumeBinding").setdefault("bindTimeoutSeconds", seconds)
        draft.explain(config_path(path, "VolumeBinding"), "was bindTimeoutSeconds at the top")


def _lock_names(draft: Draft) -> None:
    election = draft.fields.get("leaderElection", {})
    for today, lock in (("resourceNamespace", "lockObjectNamespace"), ("resourceName", "lockObjectName")):
        old = election.pop(lock, "")
        new = election.get(today, "")
        if not old:
            continue
        if new and new != old:
            first, second = _capital(today), _capital(lock)
            raise ConfigError(f"{first} and {second} are both set and do not match, {first}: {new}, {second}: {old}")
        election[today] = old
        draft.explain(f"leaderElection.{today}", f"was {lock}")


def _capital(name: str) -> str:
    return name[0].upper() + name[1:]


# --- v1beta1: several plugins with the same function


def _from_v1beta1(draft: Draft) -> None:
    make_explicit(draft, plugin_lists.of_provider(plugin_lists.V1BETA1, draft.provider), in_place=False)
    check_removed(draft)
    use_scoring_strategies(draft)
    for path, profile in draft.profiles():
        args = given_args(profile, "PodTopologySpread")
        if args.get("defaultConstraints") and "defaultingType" not in args:
            args["defaultingType"] = "List"
            text = "followed from defaultConstraints; now it must be explicit"
            draft.explain(f"{config_path(path, 'PodTopologySpread')}.args.defaultingType", text)


# --- v1beta2: defaults at every point, and insecure ports


def _from_v1beta2(draft: Draft) -> None:
    check_removed(draft)
    make_explicit(draft, plugin_lists.V1BETA2, in_place=True)
    for name in ("healthzBindAddress", "metricsBindAddress"):
        if draft.fields.pop(name, None):
            draft.warn("", f"{name} left out: health and metrics are served on --secure-port only")


def _from_v1beta3(draft: Draft) -> None:
    check_removed(draft)
    election = draft.fields.get("leaderElection", {})
    lock = election.get("resourceLock")
    if lock in ("endpoints", "configmaps", "endpointsleases", "configmapsleases"):
        election["resourceLock"] = "leases"
        draft.warn("leaderElection.resourceLock", f"was {lock}; only Leases exist today")


_STEPS: tuple[Callable[[Draft], None], ...] = (
    to_profiles,
    _from_v1alpha2,
    _from_v1beta1,
    _from_v1beta2,
    _from_v1beta3,
)


def check_provider(name: str) -> None:
    if name not in plugin_lists.PROVIDERS:
        raise ConfigError(
            f"couldn't create scheduler using provider {go_quote(name)}: algorithm provider {go_quote(name)} is not "
            f"registered: choose one of {', '.join(plugin_lists.PROVIDERS)}"
        )
