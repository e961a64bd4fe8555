"""Map each struct to its group, version, resource name and scope, and to URL paths.

A struct's defaults contain its group, kind and preferred version; the resource name follows from the kind as upstream
guesses it. Types of custom resources contain all of it. Kinds with older versions that our structs can decode list
those as well: `discovery` determines which one a cluster serves.

Upstream: staging/src/k8s.io/apimachinery/pkg/api/meta/restmapper.go, client-go/rest/request.go.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, cast
from urllib.parse import quote

from stowplan.kube.api.api_errors import qualified
from stowplan.kube.api.custom_objects import CustomObject
from stowplan.kube.api.decode import is_namespaced
from stowplan.kube.api.meta import ApiStruct
from stowplan.kube.structs import PlainStruct

#: Group -> supported versions besides the preferred one; kinds with other versions override this.
_OLDER_VERSIONS = {"resource.k8s.io": ("v1beta2",)}
_OLDER_VERSIONS_OF_KIND = {"DeviceTaintRule": ("v1beta2", "v1alpha3"), "PodGroup": ("v1alpha3", "v1alpha2")}
#: Characters of most names, which need no quoting.
_PLAIN = re.compile(r"[0-9A-Za-z.-]+").fullmatch


class ApiResource(PlainStruct, frozen=True):
    group: str
    #: "" for custom resources: only their objects have it.
    kind: str
    #: In URLs and messages: `pods`.
    plural: str
    namespaced: bool
    #: Supported versions, the preferred one first.
    versions: tuple[str, ...]

    def __str__(self) -> str:
        return qualified(self.plural, self.group)

    def api_version(self, version: str) -> str:
        return f"{self.group}/{version}" if self.group else version

    def root(self, version: str) -> str:
        """The path of the group and version, also used for discovery."""
        return f"/apis/{self.group}/{version}" if self.group else f"/api/{version}"

    def collection(self, version: str, namespace: str = "") -> str:
        """The path of all objects, optionally in one namespace."""
        if namespace and self.namespaced:
            return f"{self.root(version)}/namespaces/{_segment(namespace)}/{self.plural}"
        return f"{self.root(version)}/{self.plural}"

    def item(self, version: str, name: str, *, namespace: str = "", subresource: str = "") -> str:
        if not name:
            raise ValueError(f"{self}: a name is needed, it is empty")
        if self.namespaced and not namespace:
            raise ValueError(f"{self} {name!r}: a namespace is needed, it is empty")
        path = f"{self.collection(version, namespace)}/{_segment(name)}"
        return f"{path}/{subresource}" if subresource else path


@cache
def resource_of(struct: type[ApiStruct]) -> ApiResource:
    if issubclass(struct, CustomObject):
        return ApiResource(struct.group, "", struct.plural, struct.namespaced, (struct.version,))
    example = cast("Any", struct())
    group, _, version = example.api_version.rpartition("/")
    return ApiResource(
        group=group,
        kind=example.kind,
        plural=_plural(example.kind),
        namespaced=is_namespaced(example),
        versions=(version, *_OLDER_VERSIONS_OF_KIND.get(example.kind, _OLDER_VERSIONS.get(group, ()))),
    )


def _plural(kind: str) -> str:
    name = kind.lower()
    if name.endswith("s"):
        return f"{name}es"
    return f"{name[:-1]}ies" if name.endswith("y") else f"{name}s"


def _segment(text: str) -> str:
    return text if _PLAIN(text) else quote(text, safe="")
