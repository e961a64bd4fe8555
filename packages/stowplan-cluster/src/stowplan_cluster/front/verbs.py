"""Handle each verb: parameters and body in, a response out.

Nothing here waits: the body has been read, the registry is called, the response is bytes. A watch returns a source of
lines, which the server streams.

Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from stowplan.kube.api.api_errors import ApiError, BadRequest, MethodNotAllowed, NotAcceptable, NotFound, StatusDetails
from stowplan.kube.api.users import UserInfo
from stowplan.net.serving.requests.forms import wants_pretty
from stowplan.net.serving.requests.messages import JSON, Query
from stowplan_cluster.apiserver.deletion import DeleteOptions, Deletion
from stowplan_cluster.apiserver.discovery import subresource_of
from stowplan_cluster.apiserver.eviction import evict
from stowplan_cluster.apiserver.listing import Page, parse_version
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.patches import apply_json_patch, apply_merge_patch
from stowplan_cluster.apiserver.registry import Options, Registry
from stowplan_cluster.apiserver.resources import METRICS_GROUP, Resource
from stowplan_cluster.apiserver.reviews import answer_review
from stowplan_cluster.apiserver.scale import scale_of, set_scale
from stowplan_cluster.apiserver.selection import selection_of
from stowplan_cluster.apiserver.store import Stored
from stowplan_cluster.controllers.resource_metrics import ResourceMetrics
from stowplan_cluster.front import negotiation, request_options
from stowplan_cluster.front.access import Access
from stowplan_cluster.front.responses import (
    Answer,
    Headers,
    ObjectForm,
    Renderer,
    document,
    form_of,
    success,
    warning_headers,
)
from stowplan_cluster.front.routes import Route
from stowplan_cluster.front.watching import WatchSource

#: Groups of review kinds, which are answered but not stored.
_REVIEW_GROUPS = ("authentication.k8s.io", "authorization.k8s.io")
#: Subresources that need a running container.
_CONTAINER = ("attach", "exec", "log", "portforward", "proxy")
_NO_TOKENS = (
    '"token" is not served: this is an embedded API without tokens of service accounts; '
    "--as system:serviceaccount:NAMESPACE:NAME acts as one"
)
#: Kinds whose deletion returns the object; others return a Status with the uid.
_RETURN_DELETED = frozenset(
    (
        *("namespaces", "persistentvolumes", "persistentvolumeclaims", "pods", "services", "serviceaccounts"),
        *("deviceclasses.resource.k8s.io", "resourceclaims.resource.k8s.io"),
        *("resourceclaimtemplates.resource.k8s.io", "resourceslices.resource.k8s.io"),
        "devicetaintrules.resource.k8s.io",
        *("csidrivers.storage.k8s.io", "csinodes.storage.k8s.io"),
        *("storageclasses.storage.k8s.io", "volumeattachments.storage.k8s.io"),
    )
)
_METHODS = {
    "get": "GET",
    "list": "GET",
    "watch": "GET",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
    "deletecollection": "DELETE",
}
_COLLECTION_VERBS = ("list", "watch", "create", "deletecollection")


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A complete resource request."""

    route: Route
    query: Query
    user: UserInfo
    body: bytes = b""
    content_type: str = ""
    accept: str = ""
    user_agent: str = ""

    @property
    def namespace(self) -> str:
        """The object's namespace; the route of a Namespace has its name as namespace, too."""
        return "" if self.route.plural == "namespaces" and not self.route.group else self.route.namespace

    def form(self) -> ObjectForm:
        accepted = negotiation.negotiate(self.accept)
        pretty = wants_pretty(request_options.first(self.query, "pretty"), self.user_agent)
        return form_of(accepted, request_options.first(self.query, "includeObject"), pretty=pretty)


class MethodNotServed(MethodNotAllowed):
    """The path exists, but not for this method."""

    def __init__(self, allowed: list[str]) -> None:
        super().__init__("the server does not allow this method on the requested resource", details=StatusDetails())
        self.allowed = allowed


def no_such_page() -> NotFound:
    return NotFound("the server could not find the requested resource", details=StatusDetails())


def resource_of(registry: Registry, route: Route) -> Resource:
    """Look up the route's resource; raise NotFound, or MethodNotServed if it does not support the verb."""
    resource = registry.catalogue.find(route.group, route.version, route.plural)
    if resource is None or not route.serves(resource):
        raise no_such_page()
    if route.rest and route.subresource != "proxy":
        raise no_such_page()
    served = _verbs_of(resource, route)
    if route.verb not in served:
        raise MethodNotServed(sorted({_METHODS[verb] for verb in served}))
    return resource


def _verbs_of(resource: Resource, route: Route) -> tuple[str, ...]:
    if route.subresource:
        if (resource.qualified, route.subresource) == ("serviceaccounts", "token"):
            raise MethodNotAllowed(_NO_TOKENS)
        if route.subresource not in resource.subresources:
            raise no_such_page()
        return subresource_of(route.subresource).verbs
    if route.name:
        # A single object can also be watched by its (deprecated) path.
        return tuple(verb for verb in resource.verbs if verb not in _COLLECTION_VERBS or verb == "watch")
    verbs = tuple(verb for verb in resource.verbs if verb in _COLLECTION_VERBS)
    if resource.namespaced and not route.namespace:
        return tuple(verb for verb in verbs if verb in ("list", "watch"))
    return verbs


#: Fields of Binding, Eviction and Scale that must be objects.
_OBJECT_FIELDS = ("metadata", "spec", "target", "deleteOptions")


class Verbs:
    def __init__(self, registry: Registry, renderer: Renderer, access: Access) -> None:
        self._registry = registry
        self._renderer = renderer
        self._access = access
        self._metrics = ResourceMetrics(registry.store, registry.clock)
        self._handlers: dict[str, Callable[[Resource, Request], Answer]] = {
            "get": self._get,
            "list": self._list,
            "create": self._create,
            "update": self._update,
            "patch": self._patch,
            "delete": self._delete,
            "deletecollection": self._delete_collection,
        }

    def answer(self, resource: Resource, request: Request) -> Answer:
        subresource = request.route.subresource
        if subresource in _CONTAINER:
            raise self._no_containers(resource, request)
        if subresource == "scale":
            return self._scale(resource, request)
        return self._handlers[request.route.verb](resource, request)

    def _body(self, resource: Resource, request: Request) -> JsonObject:
        """Decode the object in the request."""
        kind = subresource_of(request.route.subresource).kind or resource.kind
        custom = resource.custom and kind == resource.kind
        obj = negotiation.read_object(request.body, request.content_type, kind=kind, custom=custom)
        for field in _OBJECT_FIELDS:
            if not isinstance(obj.get(field), dict | None):
                raise BadRequest(
                    f'{kind} in version "{resource.version}" cannot be handled as a {kind}: '
                    f"json: cannot unmarshal field {kind}.{field} into an object"
                )
        return obj

    # Reading

    def _get(self, resource: Resource, request: Request) -> Answer:
        form = request.form()
        if "export" in request.query:
            raise BadRequest("the export parameter, deprecated since v1.14, is no longer supported")
        if resource.group == METRICS_GROUP:
            return self._renderer.one(
                resource, self._metrics.get(resource, request.namespace, request.route.name), form
            )
        return self._renderer.one(resource, self._live(resource, request), form)

    def _measured(self, resource: Resource) -> Resource:
        """The pods or nodes that some metrics are about."""
        return self._registry.of_storage(resource.plural)

    def _live(self, resource: Resource, request: Request) -> Stored:
        return self._registry.get(resource, request.namespace, request.route.name)

    def _list(self, resource: Resource, request: Request) -> Answer:
        form = request.form()
        options = request_options.list_options(request.query, request.route)
        if resource.group == METRICS_GROUP:
            page = self._registry.list(self._measured(resource), request.namespace, options)
            return self._renderer.page(resource, self._metrics.page(resource, page), form)
        page = self._registry.list(resource, request.namespace, options)
        return self._renderer.page(resource, page, form)

    def watch(self, resource: Resource, request: Request) -> tuple[WatchSource, request_options.WatchOptions]:
        form = request.form()
        if form.accepted.kind == "PartialObjectMetadataList":
            raise NotAcceptable(f"you requested {form.accepted.kind}, but a watch returns one object per event")
        if form.accepted.media_type != JSON or form.pretty:
            # One event per line: only compact JSON is possible.
            form = replace(form, accepted=replace(form.accepted, media_type=JSON), pretty=False)
        wanted = request_options.watch_options(request.query, request.route)
        source = WatchSource(
            registry=self._registry,
            renderer=self._renderer,
            resource=resource,
            selection=selection_of(resource, request.namespace, wanted.label_selector, wanted.field_selector),
            form=form,
            options=wanted,
            since=parse_version(wanted.resource_version) or self._registry.store.version,
        )
        return source, wanted

    # Writing

    def _create(self, resource: Resource, request: Request) -> Answer:
        form = request.form()
        obj = self._body(resource, request)
        given = request_options.write_options(request.query, request.user_agent, "CreateOptions")
        if resource.group in _REVIEW_GROUPS:
            answered = answer_review(
                resource,
                obj,
                user=request.user,
                authorizer=self._access.authorizer,
                authenticate=self._access.tokens.user_of,
                namespace=request.namespace,
                now=self._registry.clock(),
            )
            return document(answered, form, status=201)
        name = request.route.name
        if resource.kind == "Binding" or request.route.subresource == "binding":
            self._registry.bind(request.namespace, name or _name_of(obj), obj, options=given)
            return document(success(201), form, status=201)
        if request.route.subresource == "eviction":
            evict(self._registry, request.namespace, name, obj, DeleteOptions(dry_run=given.dry_run))
            return document(success(201), form, status=201)
        stored = self._registry.create(resource, request.namespace, obj, options=given)
        return self._renderer.one(resource, stored, form, status=201, headers=warning_headers(given.warnings))

    def _update(self, resource: Resource, request: Request) -> Answer:
        form = request.form()
        given = request_options.write_options(request.query, request.user_agent, "UpdateOptions")
        name, subresource = request.route.name, request.route.subresource
        obj = self._body(resource, request)
        creates = resource.created_by_update and not self._registry.has(resource, request.namespace, name)
        if creates:
            self._access.authorize(request.user, request.route, verb="create")
        stored = self._registry.update(resource, request.namespace, name, obj, subresource=subresource, options=given)
        status = 201 if creates else 200
        return self._renderer.one(resource, stored, form, status=status, headers=warning_headers(given.warnings))

    def _patch(self, resource: Resource, request: Request) -> Answer:
        form = request.form()
        kind = negotiation.patch_kind_of(request.content_type)
        if kind == "strategic" and resource.custom:
            raise negotiation.unsupported_patch(custom=True)
        given = request_options.patch_options(request.query, request.user_agent, kind)
        patch = negotiation.read_patch(request.body, kind)
        route = request.route
        if kind == "apply" and not self._registry.has(resource, request.namespace, route.name):
            self._access.authorize(request.user, route, verb="create")
        stored, created = self._registry.patch(
            resource, request.namespace, route.name, patch, kind=kind, subresource=route.subresource, options=given
        )
        status = 201 if created else 200
        return self._renderer.one(resource, stored, form, status=status, headers=warning_headers(given.warnings))

    def _delete(self, resource: Resource, request: Request) -> Answer:
        form = request.form()
        wishes, given = self._delete_options(request)
        deletion = self._registry.delete(resource, request.namespace, request.route.name, options=given)
        if deletion.finished and resource.storage not in _RETURN_DELETED:
            return document(_deleted(resource, deletion), form)
        # Parity: 202 for an object that still exists is returned only with the deprecated orphanDependents.
        lingers = not deletion.finished and wishes.get("orphanDependents") is False
        return self._renderer.one(resource, deletion.stored, form, status=202 if lingers else 200)

    def _delete_collection(self, resource: Resource, request: Request) -> Answer:
        form = request.form()
        selection = request_options.list_options(request.query, request.route)
        _, given = self._delete_options(request)
        deleted = self._registry.delete_collection(resource, request.namespace, selection=selection, options=given)
        return self._renderer.page(resource, Page(deleted, self._registry.store.version), form)

    def _delete_options(self, request: Request) -> tuple[JsonObject, DeleteOptions]:
        body = negotiation.read_options(request.body, request.content_type) if request.body else None
        return request_options.delete_options(request.query, body)

    # Subresources

    def _scale(self, resource: Resource, request: Request) -> Answer:
        form = request.form()
        live = self._live(resource, request)
        scale, given = self._new_scale(resource, request, live)
        if given is not None:
            scale = set_scale(self._registry, resource, request.namespace, request.route.name, scale, options=given)
        headers: Headers = warning_headers(given.warnings) if given is not None else ()
        return document(scale, form, headers=headers)

    def _new_scale(self, resource: Resource, request: Request, live: Stored) -> tuple[JsonObject, Options | None]:
        """The requested Scale and its write options; None to only read it."""
        if request.route.verb == "get":
            return scale_of(self._registry, resource, live), None
        if request.route.verb == "update":
            given = request_options.write_options(request.query, request.user_agent, "UpdateOptions")
            scale = self._body(resource, request)
        else:
            kind = negotiation.patch_kind_of(request.content_type)
            given = request_options.patch_options(request.query, request.user_agent, kind)
            scale = scale_of(self._registry, resource, live)
            if kind == "apply":
                # Field ownership of replicas through Scale is not tracked.
                raise negotiation.unsupported_patch(custom=False)
            patch = negotiation.read_patch(request.body, kind)
            # A Scale has no lists, so strategic merge equals JSON merge.
            scale = apply_json_patch(scale, patch) if kind == "json" else apply_merge_patch(scale, patch)
        if _name_of(scale) not in ("", live.name):
            raise BadRequest(
                f"the name of the object ({_name_of(scale)}) does not match the name on the URL ({live.name})"
            )
        return scale, given

    def _no_containers(self, resource: Resource, request: Request) -> ApiError:
        self._live(resource, request)
        what = request.route.subresource
        return MethodNotAllowed(
            f'"{what}" is not served: this is an embedded API without containers, pod {request.route.name} '
            "exists as an object only"
        )


def _name_of(obj: JsonObject) -> str:
    metadata = obj.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) else ""


def _deleted(resource: Resource, deletion: Deletion) -> JsonObject:
    details = {"name": deletion.stored.name, "group": resource.group, "kind": resource.plural}
    details["uid"] = deletion.stored.uid
    return success(200, {key: value for key, value in details.items() if value})
