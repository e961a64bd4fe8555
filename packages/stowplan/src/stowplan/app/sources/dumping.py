"""Everything that the commands read of a cluster, as whole objects in a List, like `kubectl get -o json`.

Objects of every kind that the scheduler reads (and its plugins), of workloads and quotas, and of what hand-written pods
refer to. Secrets and ConfigMaps are none of these. Unlike kubectl, it leaves out kinds that the cluster does not serve
or the user may not list.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec import field

from stowplan import __version__
from stowplan.app.command_line.error_reporting import InputError
from stowplan.ask.loading.live_cluster import LiveClusterError, list_all, live_api
from stowplan.ask.loading.workloads import QUOTA_RESOURCE, WORKLOAD_RESOURCES
from stowplan.kube.api.api_errors import ApiError, Forbidden, NotFound
from stowplan.kube.api.custom_objects import CustomObject, custom_resource
from stowplan.kube.api.resources import ApiResource, resource_of
from stowplan.kube.api.types import PriorityClass
from stowplan.kube.structs import PlainStruct
from stowplan.net.client.http.user_agent import user_agent
from stowplan.net.client.http_api import HttpApi

if TYPE_CHECKING:
    from stowplan.net.client.cluster_flags import ClusterFlags
    from stowplan.scheduler.engine.watched_kind import WatchedKind

_CLAIM_TEMPLATES = "ResourceClaimTemplate", "resourceclaimtemplates", "resource.k8s.io"


class DumpedKind(PlainStruct, frozen=True):
    resource: ApiResource

    def types(self) -> Iterator[type[CustomObject]]:
        """Of whole objects, for each version that may be served, the preferred one first."""
        resource = self.resource
        for version in resource.versions:
            name = f"{resource.plural}.{version}.{resource.group}"
            yield custom_resource(name, namespaced=resource.namespaced)


class Dump(PlainStruct):
    objects: list[dict[str, Any]] = field(default_factory=list)
    #: Resources that the user may not list.
    forbidden: list[str] = field(default_factory=list)
    #: Of Kubernetes; empty if the server does not tell.
    version: str = ""


def dumped_kinds(watched: Iterable[WatchedKind]) -> list[DumpedKind]:
    """What a scheduler watches, and what questions and files need besides."""
    found = {str(resource): resource for resource in (resource_of(one.kind) for one in watched if not one.measured)}
    claims = resource_of(PriorityClass)
    found[str(claims)] = claims
    for kind, name in {**WORKLOAD_RESOURCES, "ResourceQuota": QUOTA_RESOURCE}.items():
        plural, version, group = name.split(".", 2)
        other = ApiResource(group, kind, plural, namespaced=True, versions=(version,))
        found.setdefault(str(other), other)
    kind, plural, group = _CLAIM_TEMPLATES
    templates = ApiResource(group, kind, plural, namespaced=True, versions=("v1", "v1beta2"))
    found[str(templates)] = templates
    return [DumpedKind(resource) for resource in found.values()]


async def read_dump(live: ClusterFlags, kinds: Iterable[DumpedKind], *, namespace: str = "") -> Dump:
    """`namespace`: of namespaced objects; "": all. Raises InputError."""
    found = Dump()
    agent = user_agent(command="stowplan", version=__version__, purpose="dump")
    try:
        async with live_api(live, agent=agent) as (api, _):
            # A single request first: an unreachable server, or failed authentication, is reported once.
            first, *others = kinds
            parts = [await _objects(api, first, namespace, found)]
            parts += await asyncio.gather(*(_objects(api, kind, namespace, found) for kind in others))
            with suppress(ApiError):
                found.version = await api.server_version()
    except LiveClusterError as error:
        raise InputError(str(error)) from error
    found.objects = [obj for part in parts for obj in part]
    return found


async def _objects(api: HttpApi, dumped: DumpedKind, namespace: str, found: Dump) -> list[dict[str, Any]]:
    resource = dumped.resource
    for kind in dumped.types():
        try:
            listings = await list_all(api, kind, namespace=namespace if resource.namespaced else "")
        except NotFound:
            continue
        except Forbidden:
            found.forbidden.append(str(resource))
            return []
        about = {"apiVersion": resource.api_version(kind.version), "kind": resource.kind}
        return [_tidy(about | obj.content) for listing in listings for obj in listing.items]
    return []


def _tidy(obj: dict[str, Any]) -> dict[str, Any]:
    """As kubectl shows it."""
    metadata = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    return obj | {"metadata": metadata}
