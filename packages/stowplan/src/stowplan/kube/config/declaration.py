"""Plugin declarations: what the configuration needs to know about a plugin, without importing it.

The configuration names no plugin itself. It gets the declarations of those that exist, by name: in-tree ones from their
folders (`scheduler.in_tree.discovery`), out-of-tree ones from their classes (`scheduler.framework.runtime.registry`).
They determine the default profile, which plugin may run at which point, and how arguments are decoded, defaulted and
validated.

Upstream: pkg/scheduler/apis/config/v1/default_plugins.go, pkg/scheduler/framework/plugins/registry.go.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import msgspec

from stowplan.kube.api.meta import ApiStruct
from stowplan.kube.config.args_classes import undecodable
from stowplan.kube.config.features import FeatureGates
from stowplan.kube.config.schema import Struct
from stowplan.kube.kubernetes_versions import OLDEST_VERSION, KubernetesVersion


class Args(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Arguments of an in-tree plugin; the class name is the `kind`.

    They are decoded by their schema, with Go's messages, and encoded by it. Arguments of out-of-tree plugins are any
    msgspec struct, dataclass or other class with fields, optionally with a `validate` method.
    """

    #: The fields as declared in Go.
    schema: ClassVar[Struct]

    def completed(self, features: FeatureGates) -> "Args":
        """Set the defaults that depend on a feature gate or on another field."""
        return self

    def validate(self, path: str, features: FeatureGates) -> Iterable[str]:
        """Return the problems, each beginning with its path. Called for all plugins in the file, enabled or not."""
        return ()

    def validate_at_build(self) -> Iterable[str]:
        """Return the problems that the reference reports only when it creates the plugin."""
        return ()

    def without_resources(self, names: tuple[str, ...]) -> "Args | None":
        """Return arguments that ignore these resources; None if the plugin does not handle resources."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class EnabledByDefault:
    """A position in the default profile's multiPoint."""

    #: Plugins run in ascending order. Numbers are unique, with gaps for future plugins.
    order: int
    weight: int = 0  #: 0 = 1 at scoring points
    #: The feature gate without which the plugin is not enabled by default.
    gate: str = ""


Kinds = tuple[type[ApiStruct], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginDeclaration:
    name: str
    #: Extension points, as the configuration spells them.
    points: frozenset[str]
    default: EnabledByDefault | None = None
    #: The type of the arguments: `Args`, a msgspec struct or another class; None leaves them undecoded.
    args_type: type[Any] | None = None
    #: Kinds that the plugin requires: it is disabled while the cluster does not serve one of them.
    needs: Kinds = ()
    #: Optional kinds: the plugin works as in a cluster without such objects; a function if they depend on args.
    reads: Kinds | Callable[[Any], Kinds] = ()
    #: Annotation keys that the plugin reads: recordings keep these.
    annotations: tuple[str, ...] = ()
    #: The first version of kube-scheduler that has it; of built-in plugins that are new.
    since: KubernetesVersion = OLDEST_VERSION
    #: False: of the built-in plugins, one that Kubernetes has removed and Stowplan keeps.
    in_kube_scheduler: bool = True
    #: Plugins of older releases that this one replaces -> how, for users who still name them.
    replaces: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.args_type is None or self.own_args is not None:
            return
        reason = undecodable(self.args_type)
        if reason:
            raise TypeError(f"args_type of plugin {self.name}{reason}")

    @property
    def own_args(self) -> type[Args] | None:
        """The type of arguments that are decoded like the reference's."""
        in_tree = isinstance(self.args_type, type) and issubclass(self.args_type, Args)
        return self.args_type if in_tree else None

    def kinds_read(self, args: Any) -> Kinds:
        return self.reads(args) if callable(self.reads) else self.reads


#: All plugins that a configuration may name.
Declarations = Mapping[str, PluginDeclaration]


class DeclarationsOnDemand(Mapping[str, PluginDeclaration]):
    """Declarations, and names of plugins that are loaded, and then declare themselves, when first looked up."""

    def __init__(self) -> None:
        self.loaded: dict[str, PluginDeclaration] = {}
        #: Name -> loads the plugin, which adds its declaration to `loaded`.
        self.offered: dict[str, Callable[[], object]] = {}

    def __getitem__(self, name: str) -> PluginDeclaration:
        load = self.offered.pop(name, None)
        if load is not None:
            try:
                load()
            except BaseException:
                # Whoever asks next gets the same error.
                self.offered[name] = load
                raise
        return self.loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in self.loaded or name in self.offered

    def __iter__(self) -> Iterator[str]:
        return iter([*self.loaded, *self.offered])

    def __len__(self) -> int:
        return len(self.loaded) + len(self.offered)


def loaded(plugins: Declarations) -> Collection[PluginDeclaration]:
    """The declarations for which no plugin has to be loaded."""
    return (plugins.loaded if isinstance(plugins, DeclarationsOnDemand) else plugins).values()


def enabled_by_default(plugins: Declarations, features: FeatureGates) -> Iterator[tuple[str, int]]:
    """Yield (name, weight) of the default multiPoint, in order."""
    places = sorted(
        (plugin.default.order, plugin.name, plugin.default) for plugin in loaded(plugins) if plugin.default is not None
    )
    for _, name, place in places:
        if not place.gate or features.enabled(place.gate):
            yield name, place.weight
