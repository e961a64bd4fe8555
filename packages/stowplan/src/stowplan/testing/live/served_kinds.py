"""Kinds of the in-memory cluster, including custom resources.

Of a CustomResourceDefinition only the group, the names, the scope and the versions are used. As long as there is none
for a resource that plugins need, the resource is not served and these plugins are disabled.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from stowplan.kube.api.custom_objects import CustomObject, custom_resource
from stowplan.kube.api.decode import KINDS, DecodeError, UnknownKindError, convert, decode_object, validate_object
from stowplan.kube.api.meta import ApiStruct
from stowplan.kube.api.resources import resource_of
from stowplan.scheduler.engine.watched_kind import WatchedKind

Definition = custom_resource("customresourcedefinitions.v1.apiextensions.k8s.io", namespaced=False)

_UNKNOWN = "the cluster has no kind {kind!r} of {api_version!r}: create its CustomResourceDefinition first"


class Kinds:
    def __init__(self, watched: Iterable[WatchedKind]) -> None:
        self._by_plural: dict[str, type[ApiStruct]] = {str(resource_of(kind)): kind for kind in KINDS.values()}
        self._by_plural[str(resource_of(Definition))] = Definition
        #: (apiVersion, kind) -> type, from definitions.
        self._defined: dict[tuple[str, str], type[ApiStruct]] = {
            ("apiextensions.k8s.io/v1", "CustomResourceDefinition"): Definition
        }
        self._watched = [one for one in watched if issubclass(one.kind, CustomObject)]
        self._missing = list(self._watched)

    def named(self, plural: str) -> type[ApiStruct]:
        """The kind of a plural such as `pods`, or with its group, `licences.shop.example.com`."""
        found = self._by_plural.get(plural)
        if found is None:
            raise ValueError(f"the cluster has no {plural!r}: want a plural, with its group if it has one")
        return found

    def decoded(self, obj: Mapping[str, Any]) -> ApiStruct:
        """The typed object of a dict, independent of it; raises ValueError if it is invalid."""
        api_version, kind = str(obj.get("apiVersion")), str(obj.get("kind"))
        custom = self._defined.get((api_version, kind))
        try:
            if custom is not None:
                return convert(msgspec.json.decode(msgspec.json.encode(obj)), custom)
            found = decode_object(obj)
            validate_object(found)
        except UnknownKindError as e:
            raise ValueError(_UNKNOWN.format(kind=kind, api_version=api_version)) from e
        except DecodeError as e:
            raise ValueError(f'{kind} "{(obj.get("metadata") or {}).get("name", "")}": {e}') from e
        return found

    # -- definitions --------------------------------------------------------------------------------------------------

    @property
    def off(self) -> frozenset[str]:
        """Plugins that need a kind which is not served."""
        return frozenset().union(*(watched.needed_by for watched in self._missing))

    def define(self, definition: CustomObject) -> None:
        """Serve the kind of a CustomResourceDefinition."""
        spec = definition.content["spec"]
        group, names = spec["group"], spec["names"]
        for version in spec["versions"]:
            resource = f"{names['plural']}.{version['name']}.{group}"
            kind = self._type_of(resource, namespaced=spec.get("scope") != "Cluster")
            self._defined[f"{group}/{version['name']}", names["kind"]] = kind
            if version.get("storage") or len(spec["versions"]) == 1:
                self._by_plural[str(resource_of(kind))] = kind
        self._missing = [one for one in self._missing if one.kind not in self._defined.values()]

    def _type_of(self, resource: str, *, namespaced: bool) -> type[CustomObject]:
        for watched in self._watched:
            if issubclass(watched.kind, CustomObject) and watched.kind.resource == resource:
                # A plugin has declared a type for it.
                return watched.kind
        return custom_resource(resource) if namespaced else custom_resource(resource, namespaced=False)
