"""What callers pass to `Cluster`: objects (dicts, Lists, typed objects) and options, decoded and checked.

Errors say which argument it is, and what it wants.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, TypedDict

import msgspec

from stowplan.ask.loading.manifest_checks import unknown_fields
from stowplan.ask.loading.object_files import LoadedFiles
from stowplan.ask.loading.workloads import workload_of
from stowplan.kube.api.custom_objects import CustomObject, guessed_plural
from stowplan.kube.api.decode import DecodeError, UnknownKindError, convert, decode_object, validate_object
from stowplan.kube.api.manifest_files import skipped_notes
from stowplan.kube.api.meta import ApiStruct, controller_of
from stowplan.kube.api.types import Pod
from stowplan.kube.config import Configuration, FeatureGates, load_config
from stowplan.kube.config.features import GateError, known_gates, with_chosen
from stowplan.kube.kubernetes_versions import VersionError, version_or_default
from stowplan.scheduler.framework.declarations import Plugin
from stowplan.scheduler.framework.handle import Random
from stowplan.scheduler.framework.runtime.registry import Registry

#: Kinds for which users might expect pods to be created; no controller does that here.
_WITHOUT_EFFECT = frozenset(("Deployment", "Job", "CronJob", "DaemonSet"))
_READ = frozenset(("StatefulSet", "ReplicaSet", "ReplicationController"))


class ClusterError(ValueError):
    """An invalid object or name; says which and why."""


def flattened(objects: Iterable[Mapping[str, Any] | msgspec.Struct]) -> Iterator[Mapping[str, Any] | msgspec.Struct]:
    """The objects, including the items of Lists."""
    if isinstance(objects, str | bytes | os.PathLike):
        raise ClusterError(f"want objects, got the path {os.fspath(objects)!r}: Cluster.from_files reads files")
    if isinstance(objects, Mapping | msgspec.Struct):
        objects = (objects,)
    if not isinstance(objects, Iterable):
        raise ClusterError(f"want objects (dicts as Kubernetes serializes them), got {described(objects)}")
    for obj in objects:
        if isinstance(obj, str | bytes | os.PathLike):
            raise ClusterError(f"want an object, got {os.fspath(obj)!r}: Cluster.from_files reads files")
        if isinstance(obj, msgspec.Struct):
            yield obj
        elif not isinstance(obj, Mapping):
            raise ClusterError(f"want an object (a dict as Kubernetes serializes it), got {described(obj)}")
        elif str(obj.get("kind") or "").endswith("List") and isinstance(obj.get("items"), list | tuple):
            kind = str(obj["kind"]).removesuffix("List")
            about = {"apiVersion": obj.get("apiVersion"), "kind": kind} if kind else {}
            yield from flattened({**about, **item} for item in obj["items"])
        else:
            yield obj


def warn_of_workloads(objects: Iterable[Mapping[str, Any] | msgspec.Struct], *, stacklevel: int) -> None:
    """Warn about workloads, because no controller creates their pods here."""
    written = [obj for obj in objects if isinstance(obj, Mapping) and obj.get("kind") in _WITHOUT_EFFECT | _READ]
    workloads = [obj for obj in written if not (obj.get("metadata") or {}).get("uid")]
    if not workloads:
        return
    owned = {workload for obj in objects for workload in _workloads_of(obj)}
    for obj in workloads:
        kind, metadata = obj["kind"], obj.get("metadata") or {}
        name, namespace = metadata.get("name"), metadata.get("namespace") or "default"
        if (namespace, kind, name) in owned or (kind in _READ and not (obj.get("spec") or {}).get("template")):
            continue
        effect = "has no effect" if kind in _WITHOUT_EFFECT else "creates no pods"
        remedy = "pass its pods, or read it with Cluster.from_files, which creates them"
        warnings.warn(f"{kind} {namespace}/{name} {effect} in a Cluster: {remedy}", stacklevel=stacklevel + 1)


def _workloads_of(obj: Mapping[str, Any] | msgspec.Struct) -> Iterator[tuple[str, str, str]]:
    """Namespace, kind and name of the workloads that a pod belongs to: a ReplicaSet and its Deployment."""
    pod = decoded(obj) if isinstance(obj, Mapping) and obj.get("kind") == "Pod" else obj
    if not isinstance(pod, Pod):
        return
    owner = controller_of(pod.metadata)
    if owner is not None:
        namespace = pod.metadata.namespace or "default"
        yield namespace, owner.kind, owner.name
        yield namespace, *(workload_of(pod) or ("", ""))


def described(value: object) -> str:
    """What a caller passed instead of an object."""
    return f"{value!r}: call its obj()" if callable(getattr(value, "obj", None)) else repr(value)


def list_order(obj: Any) -> tuple[str, str]:
    """A sort key for the order in which an API server lists objects of a kind: by namespace, then name.

    The order of a node's pods decides between equally important victims.
    """
    return ("", "") if obj is None else (obj.metadata.namespace, obj.metadata.name)


#: (apiVersion, plural) -> type of a custom resource.
CustomTypes = Mapping[tuple[str, str], type[CustomObject]]


def custom_types(kinds: Iterable[type[ApiStruct]]) -> CustomTypes:
    """Those of the kinds that are custom resources."""
    custom = [kind for kind in kinds if issubclass(kind, CustomObject)]
    return {(f"{kind.group}/{kind.version}", kind.plural): kind for kind in custom}


def custom_type_of(obj: Mapping[str, Any], custom: CustomTypes) -> type[CustomObject] | None:
    return custom.get((str(obj.get("apiVersion")), guessed_plural(str(obj.get("kind")))))


_NO_TYPES: CustomTypes = {}


def decoded(obj: Mapping[str, Any] | msgspec.Struct, custom: CustomTypes = _NO_TYPES) -> Any:
    """The object, or None if its kind is neither known nor among the custom ones."""
    if isinstance(obj, msgspec.Struct):
        return obj
    try:
        custom_type = custom_type_of(obj, custom) if custom else None
        if custom_type is not None:
            # The caller's dict stays as it is.
            return convert(msgspec.json.decode(msgspec.json.encode(obj)), custom_type)
        found = decode_object(obj)
        validate_object(found)
    except UnknownKindError:
        return None
    except DecodeError as e:
        raise ClusterError(f"{_named(obj)}: {e}") from e
    problems = unknown_fields(obj)
    if problems:
        raise ClusterError(f"{_named(obj)}: {'; '.join(problems)}")
    return found


def custom_objects_of(found: LoadedFiles, custom: CustomTypes) -> tuple[list[CustomObject], list[str]]:
    """Custom resources that plugins read; and the notes, which no longer tell that these were skipped."""
    read = [obj for obj in found.skipped if custom_type_of(obj, custom) is not None]
    left = [obj for obj in found.skipped if custom_type_of(obj, custom) is None]
    outdated = set(skipped_notes(found.skipped))
    notes = [note for note in found.notes if note not in outdated]
    return [decoded(obj, custom) for obj in read], [*notes, *skipped_notes(left)]


def _named(obj: Mapping[str, Any]) -> str:
    metadata = obj.get("metadata") or {}
    name = "/".join(str(part) for part in (metadata.get("namespace"), metadata.get("name")) if part)
    return f'{obj.get("kind", "object")} "{name}"'


class ClusterOptions(TypedDict, total=False):
    """The keyword arguments of `Cluster`, for functions that pass them on."""

    config: Mapping[str, Any] | str | os.PathLike[str] | Configuration | None
    plugins: Sequence[type[Plugin]]
    random: Random | None
    reuse: bool
    call_extender: Callable[[str, Mapping[str, Any]], Any] | None
    feature_gates: Mapping[str, bool] | None
    emulated_version: str | None
    plugin_timeout: float
    now: float


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


def features_of(config: object, gates: Mapping[str, bool], emulated_version: str | None) -> FeatureGates:
    if gates and isinstance(config, Configuration):
        raise ClusterError("feature_gates: the Configuration was loaded with its own; load it with these")
    try:
        return with_chosen(gates, version_or_default(emulated_version))
    except VersionError as e:
        raise ClusterError(f"emulated_version: {e}") from None
    except GateError as e:
        raise ClusterError(f"feature_gates: {e}") from None


class ClusterFeatures(TypedDict):
    """The part of `ClusterOptions` that features consist of."""

    feature_gates: Mapping[str, bool]
    emulated_version: str


def cluster_features(features: FeatureGates) -> ClusterFeatures:
    """As arguments of a `Cluster`. A full kube-scheduler also has gates that do not affect decisions."""
    version = features.emulated_version
    return ClusterFeatures(feature_gates=known_gates(features.gates, version), emulated_version=str(version))


def configuration_of(
    config: Mapping[str, Any] | str | os.PathLike[str] | Configuration | None,
    registry: Registry,
    features: FeatureGates,
    loaded: Collection[str],
) -> Configuration:
    if isinstance(config, Configuration):
        return config
    return load_config(config, plugins=registry.declarations, features=features, asked_for=loaded)


_MOST_SIMILAR = 3


# Suggestions for a pod or workload name that does not exist.


def near_names(key: str, known: Sequence[str], *, kind: str = "") -> str:
    """Similar keys (`namespace/name`), as a question; empty if there are none.

    The same name in another namespace comes first, then similar names in this namespace, then other similar keys.
    """
    namespace, _, name = key.partition("/")
    by_name = {other.partition("/")[2]: other for other in known if other.partition("/")[0] == namespace}
    near = [other for other in known if other.partition("/")[2] == name]
    near = near or [by_name[other] for other in get_close_matches(name, by_name, n=_MOST_SIMILAR)]
    # Keys of the same namespace are similar for that reason alone.
    near = near or get_close_matches(key, set(known).difference(by_name.values()), n=_MOST_SIMILAR, cutoff=0.75)
    prefix = f"{kind}/" if kind else ""
    return f"; did you mean {' or '.join(f'{prefix}{one}' for one in near[:_MOST_SIMILAR])}?" if near else ""
