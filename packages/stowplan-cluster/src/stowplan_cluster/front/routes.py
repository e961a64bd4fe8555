"""Map a method and a path to a verb and a resource.

Routing depends on the path alone, before the resource is looked up: an unauthorized client gets Forbidden whether or
not the resource exists. Segments are unescaped after splitting, so an escaped slash stays part of its segment and is
rejected as a name.

Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/request/requestinfo.go.
"""

from __future__ import annotations

from urllib.parse import unquote

import msgspec

from stowplan.kube.api.api_errors import BadRequest
from stowplan.kube.api.field_errors import go_quote
from stowplan.net.serving.requests.messages import Query, bad_escape, parse_query
from stowplan_cluster.apiserver.resources import Resource

#: More query parameters than any client sends.
MAX_PARAMETERS = 200
_NO_PARAMETERS: Query = {}
_VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_NAMESPACE_SUBRESOURCES = ("status", "finalize")


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """A request's verb and resource, for authorization and metrics."""

    path: str
    #: get, list, watch, create, …; for non-resource paths, the method in lower case.
    verb: str
    is_resource: bool = False
    group: str = ""
    version: str = ""
    plural: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    #: The path below a subresource: `proxy/some/path`.
    rest: tuple[str, ...] = ()

    @property
    def scope(self) -> str:
        """The scope label of metrics."""
        if self.name or self.verb == "create":
            return "resource"
        if self.namespace:
            return "namespace"
        return "cluster" if self.is_resource else ""

    def serves(self, resource: Resource) -> bool:
        """Whether the path has the form of this resource's paths."""
        if not resource.namespaced:
            return not self.namespace or (self.plural == "namespaces" and self.namespace == self.name)
        # Without a namespace only collections exist.
        return bool(self.namespace) or not self.name


def split_target(target: str) -> tuple[str, Query]:
    """Split a request target into path and query; raise BadRequest if it is malformed."""
    if not target.startswith("/"):
        raise BadRequest("the request target must be a path")
    path, _, query = target.partition("?")
    return path, _query(query) if query else _NO_PARAMETERS


def _query(text: str) -> Query:
    try:
        return parse_query(text, limit=MAX_PARAMETERS, errors="strict")
    except UnicodeDecodeError:
        raise BadRequest("the query is not UTF-8") from None
    except ValueError:
        raise BadRequest(f"the query has more than {MAX_PARAMETERS} parameters") from None


def route_of(method: str, path: str, query: Query) -> Route:
    """Route a request; raise BadRequest if the path is malformed."""
    segments = _segments(path)
    start = _resource_start(segments)
    if start is None:
        return Route(path="/" + "/".join(segments), verb=method.lower())
    group = segments[1] if start == 3 else ""
    return _resource_route(method, path, query, group, segments[start - 1], segments[start:])


def _segments(path: str) -> list[str]:
    inner = path[1:].removesuffix("/")
    if "%" in inner:
        return [_unescaped(segment) for segment in inner.split("/")]
    if "\0" in inner:
        raise BadRequest("the path must not have a NUL byte")
    return inner.split("/")


def _unescaped(segment: str) -> str:
    if wrong := bad_escape(segment):
        raise BadRequest(f"invalid URL escape {go_quote(wrong)}")
    try:
        text = unquote(segment, errors="strict")
    except UnicodeDecodeError:
        raise BadRequest("the path is not UTF-8") from None
    if not text.isprintable():
        raise BadRequest("the path must not have control characters")
    return text


def _resource_start(segments: list[str]) -> int | None:
    """Index of the first segment after group and version; None for non-resource paths."""
    if segments[0] == "api" and len(segments) > 2:
        return 2
    if segments[0] == "apis" and len(segments) > 3:
        return 3
    return None


def _resource_route(method: str, path: str, query: Query, group: str, version: str, parts: list[str]) -> Route:
    verb = _VERBS.get(method, "")
    if parts[0] == "watch" and len(parts) > 1:
        # The deprecated watch paths: /api/v1/watch/pods.
        verb, parts = "watch" if verb == "get" else "", parts[1:]
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 1:
        namespace = check_name(parts[1])
        if len(parts) > 2 and parts[2] not in _NAMESPACE_SUBRESOURCES:
            parts = parts[2:]
    if "" in parts:
        raise BadRequest(f"the path has an empty segment: {go_quote(path)}")
    name = check_name(parts[1]) if len(parts) > 1 else ""
    if not name and verb == "get":
        verb = "watch" if boolean(query, "watch") else "list"
    elif not name and verb == "delete":
        verb = "deletecollection"
    return Route(
        path=path,
        verb=verb,
        is_resource=True,
        group=group,
        version=version,
        plural=parts[0],
        namespace=namespace,
        name=name,
        subresource=parts[2] if len(parts) > 2 else "",
        rest=tuple(parts[3:]),
    )


def boolean(query: Query, name: str) -> bool:
    """A boolean query parameter: `watch`, `watch=1` and `watch=yes` are all true."""
    values = query.get(name)
    return values is not None and values[0].lower() not in ("false", "0")


def check_name(name: str) -> str:
    """Return the name; raise BadRequest if no object can have it."""
    wrong = ["may not be '" + name + "'"] if name in (".", "..") else []
    wrong += [f"may not contain '{char}'" for char in "/%" if char in name]
    if not name:
        wrong = ["may not be empty"]
    if wrong:
        raise BadRequest(f"Name parameter invalid: {go_quote(name)}: {';'.join(wrong)}")
    return name
