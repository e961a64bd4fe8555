"""API discovery: groups, versions, resources and subresources.

Every document is a pure function of the catalogue. `Discovery` caches them until the catalogue's version changes, so
custom resources appear as soon as they are served. kubectl requests the aggregated form first: everything in two
documents.

Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/discovery, endpoints/installer.go.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable

import msgspec

from stowplan.kube.structs import PlainStruct
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.resources import METRICS_GROUP, Catalogue, Resource

AGGREGATED_GROUP = "apidiscovery.k8s.io"
AGGREGATED_KIND = "APIGroupDiscoveryList"
AGGREGATED_VERSIONS = ("v2", "v2beta1")

#: Groups in the order in which a cluster lists them, which decides whose short name wins. Others follow by name, then
#: that of metrics.
_GROUP_ORDER = (
    "",
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "resource.k8s.io",
)
_READ_WRITE = ("get", "patch", "update")
_CONNECT = ("create", "get")


class Subresource(PlainStruct, frozen=True):
    #: Kind, group and version if they differ from the parent's.
    kind: str = ""
    group: str = ""
    version: str = ""
    verbs: tuple[str, ...] = _READ_WRITE


_PLAIN = Subresource()
SUBRESOURCES: dict[str, Subresource] = {
    "attach": Subresource("PodAttachOptions", verbs=_CONNECT),
    "binding": Subresource("Binding", verbs=("create",)),
    "eviction": Subresource("Eviction", "policy", "v1", verbs=("create",)),
    "exec": Subresource("PodExecOptions", verbs=_CONNECT),
    "finalize": Subresource(verbs=("update",)),
    "log": Subresource(verbs=("get",)),
    "portforward": Subresource("PodPortForwardOptions", verbs=_CONNECT),
    "proxy": Subresource("PodProxyOptions", verbs=("create", "delete", "get", "patch", "update")),
    "scale": Subresource("Scale", "autoscaling", "v1"),
}


def subresource_of(name: str) -> Subresource:
    return SUBRESOURCES.get(name, _PLAIN)


_VERSION_RE = re.compile(r"v([1-9]\d*)(?:(alpha|beta)([1-9]\d*))?")
_STABILITY = {"alpha": 0, "beta": 1, None: 2}


def version_order(version: str) -> tuple[int, int, int, int, str]:
    """Sorts the best version first: v2, v1, v1beta2, v1beta1, v1alpha1, then others by name."""
    match = _VERSION_RE.fullmatch(version)
    if match is None:
        return (1, 0, 0, 0, version)
    major, stability, minor = match.groups()
    return (0, -_STABILITY[stability], -int(major), -int(minor or 0), "")


def groups_of(catalogue: Catalogue) -> dict[str, dict[str, list[Resource]]]:
    """Resources by group and version, in the order in which discovery lists them."""
    found: dict[str, dict[str, list[Resource]]] = {}
    for resource in catalogue:
        found.setdefault(resource.group, {}).setdefault(resource.version, []).append(resource)
    return {
        group: {
            version: sorted(found[group][version], key=lambda resource: resource.plural)
            for version in sorted(found[group], key=version_order)
        }
        for group in sorted(found, key=_group_order)
    }


def _group_order(group: str) -> tuple[int, str]:
    if group == METRICS_GROUP:
        return (len(_GROUP_ORDER) + 1, "")
    return (_GROUP_ORDER.index(group), "") if group in _GROUP_ORDER else (len(_GROUP_ORDER), group)


def api_versions(address: str) -> JsonObject:
    """The document at /api."""
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    }


def api_group_list(catalogue: Catalogue) -> JsonObject:
    """The document at /apis."""
    groups = [_api_group(group, versions) for group, versions in groups_of(catalogue).items() if group]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def api_group(catalogue: Catalogue, group: str) -> JsonObject | None:
    """The document at /apis/GROUP."""
    versions = groups_of(catalogue).get(group)
    if not group or versions is None:
        return None
    return {"kind": "APIGroup", "apiVersion": "v1", **_api_group(group, versions)}


def _api_group(group: str, versions: Iterable[str]) -> JsonObject:
    listed = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
    return {"name": group, "versions": listed, "preferredVersion": listed[0]}


def api_resource_list(catalogue: Catalogue, group: str, version: str) -> JsonObject | None:
    """The document at /api/v1 and /apis/GROUP/VERSION."""
    resources = groups_of(catalogue).get(group, {}).get(version)
    if resources is None:
        return None
    entries = [entry for resource in resources for entry in _api_resources(resource)]
    group_version = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": entries}


def _api_resources(resource: Resource) -> Iterable[JsonObject]:
    yield {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
        **_names(resource),
    }
    for name in sorted(resource.subresources):
        sub = subresource_of(name)
        kind = {"group": sub.group, "version": sub.version} if sub.group else {}
        yield {
            "name": f"{resource.plural}/{name}",
            "singularName": "",
            "namespaced": resource.namespaced,
            **kind,
            "kind": sub.kind or resource.kind,
            "verbs": list(sub.verbs),
        }


def _names(resource: Resource) -> JsonObject:
    lists = {"shortNames": list(resource.short_names), "categories": list(resource.categories)}
    return {key: names for key, names in lists.items() if names}


def aggregated(catalogue: Catalogue, *, core: bool, version: str) -> JsonObject:
    """Everything at once: the core group (/api) or all others (/apis)."""
    groups = {group: versions for group, versions in groups_of(catalogue).items() if core is not bool(group)}
    return {
        "kind": AGGREGATED_KIND,
        "apiVersion": f"{AGGREGATED_GROUP}/{version}",
        "metadata": {},
        "items": [_group_discovery(group, versions) for group, versions in groups.items()],
    }


def _group_discovery(group: str, versions: dict[str, list[Resource]]) -> JsonObject:
    return {
        "metadata": {"name": group} if group else {},
        "versions": [
            {
                "version": version,
                "resources": [_resource_discovery(resource) for resource in resources],
                "freshness": "Current",
            }
            for version, resources in versions.items()
        ],
    }


def _resource_discovery(resource: Resource) -> JsonObject:
    entry: JsonObject = {
        "resource": resource.plural,
        "responseKind": _kind(resource.group, resource.version, resource.kind),
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(resource.verbs),
        **_names(resource),
    }
    subresources = [_subresource_discovery(resource, name) for name in sorted(resource.subresources)]
    return {**entry, "subresources": subresources} if subresources else entry


def _subresource_discovery(resource: Resource, name: str) -> JsonObject:
    sub = subresource_of(name)
    group, version = (sub.group, sub.version) if sub.group else (resource.group, resource.version)
    return {
        "subresource": name,
        "responseKind": _kind(group, version, sub.kind or resource.kind),
        "verbs": list(sub.verbs),
    }


def _kind(group: str, version: str, kind: str) -> JsonObject:
    return {"group": group, "version": version, "kind": kind}


class Document(PlainStruct, frozen=True):
    body: bytes
    etag: str


class Discovery:
    """The encoded documents, created on first use and cached until the catalogue changes."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._version = -1
        self._documents: dict[tuple[str, ...], Document | None] = {}

    def api(self, address: str) -> Document | None:
        return self._kept(("api", address), lambda: api_versions(address))

    def groups(self) -> Document | None:
        return self._kept(("apis",), lambda: api_group_list(self._catalogue))

    def group(self, group: str) -> Document | None:
        return self._kept(("group", group), lambda: api_group(self._catalogue, group))

    def resources(self, group: str, version: str) -> Document | None:
        return self._kept(("resources", group, version), lambda: api_resource_list(self._catalogue, group, version))

    def aggregated(self, *, core: bool, version: str) -> Document | None:
        key = ("aggregated", "core" if core else "", version)
        return self._kept(key, lambda: aggregated(self._catalogue, core=core, version=version))

    def _kept(self, key: tuple[str, ...], make: Callable[[], JsonObject | None]) -> Document | None:
        if self._version != self._catalogue.version:
            self._documents.clear()
            self._version = self._catalogue.version
        if key in self._documents:
            return self._documents[key]
        made = make()
        document = None if made is None else _document(made)
        # Do not cache misses: clients may request any number of unknown names.
        if document is not None:
            self._documents[key] = document
        return document


def _document(obj: JsonObject) -> Document:
    body = msgspec.json.encode(obj)
    return Document(body, etag_of(body))


def etag_of(body: bytes) -> str:
    return f'"{hashlib.sha512(body).hexdigest().upper()}"'
