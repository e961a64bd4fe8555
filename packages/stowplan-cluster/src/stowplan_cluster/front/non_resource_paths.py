"""Non-resource paths: health, version, metrics, discovery, OpenAPI and the index.

Upstream: staging/src/k8s.io/apiserver/pkg/server/healthz, server/routes, endpoints/discovery.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec

from stowplan.kube.api.api_errors import NotAcceptable
from stowplan.kube.kubernetes_versions import KubernetesVersion
from stowplan.net.serving.requests.forms import Form
from stowplan.net.serving.requests.health import Check, HealthChecks, check_answer
from stowplan.net.serving.requests.messages import JSON, Page, Query, Response
from stowplan_cluster.apiserver import discovery
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.registry import Registry
from stowplan_cluster.apiserver.schema import openapi
from stowplan_cluster.apiserver.schema.openapi_protobuf import openapi_v2_protobuf
from stowplan_cluster.front import negotiation
from stowplan_cluster.front.front_metrics import Metrics
from stowplan_cluster.front.responses import Answer, document, encode, form_of
from stowplan_cluster.front.verbs import MethodNotServed, no_such_page

#: The media type of protobuf differs between Accept and Content-Type.
_OPENAPI_V2_ASKED = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
_OPENAPI_V2_ANSWERED = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_PATHS = ("/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3", "/readyz", "/version")


class Pages:
    def __init__(
        self,
        registry: Registry,
        metrics: Metrics,
        *,
        checks: Mapping[str, Callable[[], bool]],
    ) -> None:
        """`checks` are those of /readyz; /livez and /healthz pass if the server responds."""
        self._registry = registry
        self._metrics = metrics
        self._discovery = discovery.Discovery(registry.catalogue)
        ready = {name: _failure(check) for name, check in checks.items()}
        self._checks: dict[str, dict[str, Check]] = {
            "healthz": {"ping": _passes},
            "livez": {"ping": _passes},
            "readyz": {"ping": _passes, **ready},
        }
        #: Cached documents by path, and the catalogue version that they were built from.
        self._openapi: dict[str, Answer] = {}
        self._openapi_version = -1
        self._pages: dict[str, Callable[[str, Query, str], Answer]] = {
            "": self._index,
            "index.html": self._index,
            "version": self._version,
            "metrics": self._metrics_page,
            "api": self._api,
            "apis": self._apis,
            "openapi": self._openapi_page,
            **{page: partial(self._health, page) for page in self._checks},
        }
        #: Pages of other components, by path; a path with a trailing slash includes all below it.
        self.of_others: Mapping[str, Page] = {}
        #: host:port, for /api.
        self.address = ""

    def answer(self, method: str, path: str, query: Query, *, accept: str, if_none_match: str = "") -> Answer:
        """Answer a non-resource path; raise NotFound or MethodNotServed."""
        first, _, rest = path[1:].partition("/")
        page = self._pages.get(first)
        if page is None:
            raise no_such_page()
        answer = page(rest, query, accept)
        if method != "GET" and first not in self._checks:
            raise MethodNotServed(["GET"])
        etag = next((value for name, value in answer.headers if name == "ETag"), None)
        if etag is not None and etag == if_none_match:
            return Answer((), 304, answer.content_type, answer.headers)
        return answer

    def mounted(self, path: str) -> Page | None:
        """The mounted page at this path."""
        above = (prefix for prefix in self.of_others if prefix.endswith("/") and path.startswith(prefix))
        return self.of_others.get(path) or self.of_others.get(max(above, key=len, default=""))

    def _index(self, rest: str, query: Query, accept: str) -> Answer:
        if rest:
            raise no_such_page()
        groups = discovery.groups_of(self._registry.catalogue)
        paths = ["/api", "/api/v1", "/apis"]
        for group, versions in groups.items():
            if group:
                paths += [f"/apis/{group}", *(f"/apis/{group}/{version}" for version in versions)]
        health = [f"/{page}/{check}" for page, checks in self._checks.items() for check in checks]
        return document({"paths": sorted((*paths, *_PATHS, *health))}, _PRETTY)

    def _version(self, rest: str, query: Query, accept: str) -> Answer:
        if rest:
            raise no_such_page()
        return document(_version_info(self._registry.catalogue.kubernetes), _PRETTY)

    def _metrics_page(self, rest: str, query: Query, accept: str) -> Answer:
        if rest:
            raise no_such_page()
        content_type, body = self._metrics.page(accept)
        return Answer((body,), 200, content_type)

    # Health

    def _health(self, page: str, rest: str, query: Query, accept: str) -> Answer:
        checks = self._checks[page]
        if rest:
            if rest not in checks:
                raise no_such_page()
            return shown(check_answer(checks[rest]))
        report = HealthChecks(page, checks).report(excluded=query.get("exclude", ()), verbose="verbose" in query)
        return shown(report)

    # Discovery

    def _api(self, rest: str, query: Query, accept: str) -> Answer:
        if not rest:
            return self._aggregated(accept, core=True) or self._plain(self._discovery.api(self.address), accept)
        return self._plain(self._discovery.resources("", rest), accept)

    def _apis(self, rest: str, query: Query, accept: str) -> Answer:
        if not rest:
            return self._aggregated(accept, core=False) or self._plain(self._discovery.groups(), accept)
        group, slash, version = rest.partition("/")
        if slash:
            return self._plain(self._discovery.resources(group, version) if group else None, accept)
        return self._plain(self._discovery.group(group), accept)

    def _aggregated(self, accept: str, *, core: bool) -> Answer | None:
        """The aggregated document, if the client prefers it."""
        try:
            accepted = negotiation.negotiate(accept, "discovery") if accept else None
        except NotAcceptable:
            return None
        if accepted is None or accepted.media_type != JSON:
            return None
        found = self._discovery.aggregated(core=core, version=accepted.version)
        if found is None:
            return None
        content_type = f"{JSON};g={discovery.AGGREGATED_GROUP};v={accepted.version};as={discovery.AGGREGATED_KIND}"
        headers = (("ETag", found.etag), ("Vary", "Accept"), ("Cache-Control", "public"))
        return Answer((found.body,), 200, content_type, headers)

    def _plain(self, found: discovery.Document | None, accept: str) -> Answer:
        if found is None:
            raise no_such_page()
        accepted = negotiation.negotiate(accept, "plain")
        if accepted.media_type == JSON and not accepted.pretty:
            return Answer((found.body, b"\n"))
        return document(msgspec.json.decode(found.body), form_of(accepted, "", pretty=False))

    # OpenAPI

    def _openapi_page(self, rest: str, query: Query, accept: str) -> Answer:
        if rest == "v2":
            return self._openapi_v2(accept)
        if rest == "v3":
            return self._kept("v3", self._openapi_index)
        version, _, path = rest.partition("/")
        if version != "v3":
            raise no_such_page()
        return _hashed(self._kept(path, lambda: self._openapi_v3(path)), path, query)

    def _openapi_v2(self, accept: str) -> Answer:
        if _OPENAPI_V2_ASKED in accept:
            return self._kept("v2.pb", self._openapi_v2_protobuf)
        negotiation.negotiate(accept, "plain")
        return self._kept("v2", self._openapi_v2_json)

    def _openapi_v2_json(self) -> Answer:
        return _cacheable(encode(self._openapi_v2_document()))

    def _openapi_v2_protobuf(self) -> Answer:
        return _cacheable(openapi_v2_protobuf(self._openapi_v2_document()), _OPENAPI_V2_ANSWERED)

    def _openapi_v2_document(self) -> JsonObject:
        registry = self._registry
        return openapi.openapi_v2(registry.catalogue, schema_of=registry.schema_of)

    def _openapi_index(self) -> Answer:
        registry = self._registry
        return _cacheable(encode(openapi.openapi_v3_index(registry.catalogue, schema_of=registry.schema_of)))

    def _openapi_v3(self, path: str) -> Answer:
        prefix, _, group_version = path.partition("/")
        group, _, version = group_version.rpartition("/")
        if prefix not in ("api", "apis") or (prefix == "api") is bool(group):
            raise no_such_page()
        registry = self._registry
        found = openapi.openapi_v3(registry.catalogue, group, version, schema_of=registry.schema_of)
        if found is None:
            raise no_such_page()
        return _cacheable(encode(found))

    def _kept(self, path: str, make: Callable[[], Answer]) -> Answer:
        """Cache a document until the catalogue changes."""
        catalogue_version = self._registry.catalogue.version
        if self._openapi_version != catalogue_version:
            self._openapi.clear()
            self._openapi_version = catalogue_version
        if path not in self._openapi:
            self._openapi[path] = make()
        return self._openapi[path]


def _cacheable(body: bytes, content_type: str = JSON) -> Answer:
    return Answer((body,), 200, content_type, (("ETag", discovery.etag_of(body)), ("Vary", "Accept")))


def _hashed(answer: Answer, path: str, query: Query) -> Answer:
    """A URL with the current hash may be cached forever; one with an outdated hash redirects to the current URL."""
    requested = query.get("hash")
    if requested is None:
        return answer
    digest = dict(answer.headers)["ETag"].strip('"')
    if requested[0] == digest:
        return Answer(
            answer.pieces, 200, answer.content_type, (*answer.headers, ("Cache-Control", "public, immutable"))
        )
    return Answer((), 301, answer.content_type, (("Location", f"/openapi/v3/{path}?hash={digest}"),))


_PRETTY = form_of(Form(), "", pretty=True)


def shown(response: Response) -> Answer:
    return Answer((response.body,), response.status, response.content_type, response.headers)


def _passes() -> None:
    """A check that always passes."""


def _failure(check: Callable[[], bool]) -> Check:
    return lambda: None if check() else "the check failed"


def _version_info(version: KubernetesVersion) -> dict[str, Any]:
    return {
        "major": str(version.major),
        "minor": str(version.minor),
        "gitVersion": f"v{version}.0+stowplan",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": platform.python_implementation().lower(),
        "platform": f"{platform.system().lower()}/{_ARCHITECTURES.get(platform.machine(), platform.machine())}",
    }


#: Go's names.
_ARCHITECTURES = {"x86_64": "amd64", "AMD64": "amd64", "aarch64": "arm64"}
