"""The arguments of `Cluster`, checked: their errors say which argument it is, and what it wants."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypedDict

from stowplan.ask.offline.objects import ClusterError
from stowplan.kube.config import Configuration, FeatureGates, load_config
from stowplan.kube.config.features import GateError, with_chosen

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Collection, Sequence

    from stowplan.scheduler.engine.settings import RandomSource
    from stowplan.scheduler.framework.interface import Plugin
    from stowplan.scheduler.framework.runtime.registry import Registry


class ClusterOptions(TypedDict, total=False):
    """The keyword arguments of `Cluster`, for functions that pass them on."""

    config: Mapping[str, Any] | str | os.PathLike[str] | Configuration | None
    plugins: Sequence[type[Plugin]]
    random: RandomSource | None
    reuse: bool
    call_extender: Callable[[str, Mapping[str, Any]], Any] | None
    feature_gates: Mapping[str, bool] | None
    plugin_timeout: float


def checked_plugins(plugins: object) -> tuple[type[Plugin], ...]:
    if not isinstance(plugins, Iterable) or isinstance(plugins, str):
        raise ClusterError(f"plugins: want a list of classes of plugins, got {plugins!r}")
    given = tuple(plugins)
    for plugin in given:
        if not isinstance(plugin, type) or not isinstance(getattr(plugin, "name", None), str):
            raise ClusterError(f"plugins: want classes of plugins, got {plugin!r}")
    return given


def checked_gates(gates: Mapping[str, bool] | None) -> dict[str, bool]:
    if gates is None:
        return {}
    if not isinstance(gates, Mapping) or not all(isinstance(on, bool) for on in gates.values()):
        raise ClusterError(f'feature_gates: want a dict such as {{"GenericWorkload": True}}, got {gates!r}')
    return dict(gates)


def features_of(config: object, gates: Mapping[str, bool]) -> FeatureGates:
    if gates and isinstance(config, Configuration):
        raise ClusterError("feature_gates: the Configuration was loaded with its own; load it with these")
    try:
        return with_chosen(gates)
    except GateError as e:
        raise ClusterError(f"feature_gates: {e}") from None


def configuration_of(
    config: Mapping[str, Any] | str | os.PathLike[str] | Configuration | None,
    registry: Registry,
    features: FeatureGates,
    loaded: Collection[str],
) -> Configuration:
    if isinstance(config, Configuration):
        return config
    return load_config(config, plugins=registry.declarations, features=features, asked_for=loaded)
