"""Decode the objects that callers pass in: dicts, Lists, typed objects."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from stowplan.api.decode import DecodeError, UnknownKindError, decode_object, validate_object

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: Kinds of manifests of which somebody might expect pods.
_WITHOUT_EFFECT = frozenset(("Deployment", "Job", "CronJob", "DaemonSet"))


class ClusterError(ValueError):
    """An object or a name that makes no sense here; says which and why."""


def flattened(objects: Iterable[Mapping[str, Any] | msgspec.Struct]) -> Iterator[Mapping[str, Any] | msgspec.Struct]:
    """Objects, those of Lists too."""
    if isinstance(objects, str | os.PathLike):
        raise ClusterError(f"want objects, got the path {os.fspath(objects)!r}: Cluster.from_files reads files")
    if isinstance(objects, Mapping):
        objects = (objects,)
    for obj in objects:
        if isinstance(obj, str | os.PathLike):
            raise ClusterError(f"want an object, got {os.fspath(obj)!r}: Cluster.from_files reads files")
        if not isinstance(obj, Mapping):
            yield obj
        elif str(obj.get("kind") or "").endswith("List") and isinstance(obj.get("items"), list | tuple):
            kind = str(obj["kind"]).removesuffix("List")
            about = {"apiVersion": obj.get("apiVersion"), "kind": kind} if kind else {}
            yield from flattened({**about, **item} for item in obj["items"])
        else:
            _warn_of_templates(obj)
            yield obj


def _warn_of_templates(obj: Mapping[str, Any]) -> None:
    metadata = obj.get("metadata") or {}
    if obj.get("kind") in _WITHOUT_EFFECT and not metadata.get("uid"):
        name = f"{obj['kind']} {metadata.get('namespace') or 'default'}/{metadata.get('name')}"
        message = f"{name} has no effect in a Cluster: give its pods; Cluster.from_files makes those of a file"
        warnings.warn(message, stacklevel=5)


def list_order(obj: Any) -> tuple[str, str]:
    """Where an API server would list an object among its kind: by namespace, then name.

    The order in which a node's pods are listed decides between equally important victims.
    """
    return ("", "") if obj is None else (obj.metadata.namespace, obj.metadata.name)


def decoded(obj: Mapping[str, Any] | msgspec.Struct) -> Any:
    if isinstance(obj, msgspec.Struct):
        return obj
    try:
        found = decode_object(obj)
        validate_object(found)
    except UnknownKindError:
        return None
    except DecodeError as e:
        metadata = obj.get("metadata") or {}
        name = "/".join(str(part) for part in (metadata.get("namespace"), metadata.get("name")) if part)
        raise ClusterError(f'{obj.get("kind", "object")} "{name}": {e}') from e
    return found
