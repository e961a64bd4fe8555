"""The API's verbs: the path from a request to the store.

A write goes through the same stages as upstream: conformance to the type, metadata, defaults, admission, the kind's
strategy, validation, managed fields; then it is stored, unless it is a dry run. All of it is synchronous, so writes
never interleave.

Objects are passed and returned as dicts; the registry takes ownership of those it is passed. Objects are converted if
the requested version is not the storage version (`conversion.py`).

Upstream: k8s.io/apiserver/pkg/endpoints/handlers, pkg/registry/generic/registry/store.go, pkg/registry/rest.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Literal

from msgspec import field

from stowplan.kube.api import api_errors
from stowplan.kube.api.field_errors import go_quote
from stowplan.kube.api.meta import timestamp
from stowplan.kube.kubernetes_versions import BINARY_VERSION
from stowplan.kube.structs import PlainStruct
from stowplan_cluster.apiserver import conversion, deletion, managed_fields, patches, strategies, validation
from stowplan_cluster.apiserver.binding import bind_pod, check_binding
from stowplan_cluster.apiserver.custom.definitions import definition_warnings, validate_definition
from stowplan_cluster.apiserver.custom_resources import DEFINITIONS, CustomResources
from stowplan_cluster.apiserver.defaults import apply_defaults
from stowplan_cluster.apiserver.deletion import DeleteOptions, Deletion
from stowplan_cluster.apiserver.listing import ListOptions, Page, list_page
from stowplan_cluster.apiserver.metadata import (
    Names,
    carry_over,
    check_name,
    check_uid,
    prepare_metadata,
    set_namespace,
    version_asked,
)
from stowplan_cluster.apiserver.objects import JsonObject, go_text, metadata_of, same, sorted_json
from stowplan_cluster.apiserver.resources import Catalogue, Resource
from stowplan_cluster.apiserver.schema import conform, drop_newer, schema_of
from stowplan_cluster.apiserver.schema.type_model import Struct
from stowplan_cluster.apiserver.selection import selection_of
from stowplan_cluster.apiserver.store import Store, Stored, stored_of
from stowplan_cluster.apiserver.warnings import warnings_of_create, warnings_of_update

if TYPE_CHECKING:
    from stowplan_cluster.apiserver.admission import Admission
    from stowplan_cluster.apiserver.quota_usage import QuotaUsage

    _Record = Callable[[JsonObject | None, JsonObject, str], None]


_NAMES = {"admission": "admission", "managed-fields": "managed_fields", "validation": "validation"}


class Stages(PlainStruct, frozen=True, kw_only=True):
    #: Without it, no admission plugin runs: pods get no priority from their class and no default tolerations,
    #: claims no default storage class, and namespaces need not exist.
    admission: bool = True
    #: Without it, managedFields are maintained only for objects that use server-side apply.
    managed_fields: bool = True
    #: Without it, any object with the right types is stored, without warnings. CustomResourceDefinitions are validated
    #: nevertheless, as the server relies on them.
    validation: bool = True

    @classmethod
    def without(cls, names: Collection[str]) -> Stages:
        """All stages but these; raise ValueError for an unknown name."""
        unknown = sorted(set(names) - _NAMES.keys())
        if unknown:
            raise ValueError(f"no stage is called {', '.join(unknown)}; there are {', '.join(_NAMES)}")
        return cls(**{_NAMES[name]: False for name in names})


ALL_STAGES = Stages()


PatchKind = Literal["json", "merge", "strategic", "apply"]


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


class Options(PlainStruct, kw_only=True):
    """Options of a request."""

    field_manager: str = "stowplan"
    #: How to treat unknown fields: "Ignore", "Warn" or "Strict".
    field_validation: str = "Warn"
    dry_run: bool = False
    #: Keep the object's uid: it comes from another server, and other objects refer to it.
    keep_uid: bool = False
    #: Server-side apply takes fields from other managers.
    force: bool = False
    #: Collects warnings for the client.
    warnings: list[str] = field(default_factory=list)


class Registry:
    def __init__(
        self,
        *,
        store: Store,
        catalogue: Catalogue,
        admission: Admission,
        quotas: QuotaUsage,
        custom_resources: CustomResources,
        names: Names,
        clock: Callable[[], float],
        stages: Stages,
    ) -> None:
        self.store = store
        self.catalogue = catalogue
        self.clock = clock
        #: Replaced by `ApiServer.set_admission`.
        self.admission = admission
        self.quotas = quotas
        self._custom = custom_resources
        self._names = names
        self._stages = stages

    # Reading

    def get(self, resource: Resource, namespace: str, name: str) -> Stored:
        stored = self.store.get(resource.storage, namespace, name)
        if stored is None:
            raise api_errors.not_found(resource.plural, resource.group, name)
        return stored

    def has(self, resource: Resource, namespace: str, name: str) -> bool:
        return self.store.get(resource.storage, namespace, name) is not None

    def list(self, resource: Resource, namespace: str = "", options: ListOptions | None = None) -> Page:
        options = options or ListOptions()
        selection = selection_of(resource, namespace, options.label_selector, options.field_selector)
        return list_page(self.store, resource.storage, selection, options)

    def to_dict(self, resource: Resource, stored: Stored) -> JsonObject:
        """The object in the version of this resource."""
        return conversion.from_storage(resource, stored.to_dict())

    # Writing

    def create(self, resource: Resource, namespace: str, obj: JsonObject, *, options: Options | None = None) -> Stored:
        options = options or Options()
        obj = self._conforming(resource, obj, options)
        return self._create(resource, namespace, obj, options, self._record_update(resource, options))

    def _create(self, resource: Resource, namespace: str, obj: JsonObject, options: Options, record: _Record) -> Stored:
        now = self.clock()

        def taken(name: str) -> bool:
            return self.has(resource, namespace, name)

        uid = metadata_of(obj).get("uid") if options.keep_uid else None
        prepare_metadata(resource, obj, namespace, names=self._names, taken=taken, now=now)
        if uid:
            metadata_of(obj)["uid"] = uid
        self._apply_defaults(resource, obj)
        # Before the server sets fields, so that the client owns only what it sent.
        record(None, obj, "")
        self.admission.create(resource, obj)
        strategies.prepare_for_create(resource, obj, now=now)
        if self._is_validated(resource):
            self._check_new(resource, obj, options)
        metadata = metadata_of(obj)
        there = self.store.get(resource.storage, metadata.get("namespace", ""), metadata["name"])
        if there is not None:
            raise _already_exists(resource, there)
        return self._write(resource, obj, options)

    def update(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        obj: JsonObject,
        *,
        subresource: str = "",
        options: Options | None = None,
    ) -> Stored:
        """Update the object; for some kinds, create it if it does not exist."""
        options = options or Options()
        obj = self._conforming(resource, obj, options)
        check_name(obj, name)
        set_namespace(resource, metadata_of(obj), namespace)
        record = self._record_update(resource, options)
        if resource.created_by_update and not self.has(resource, namespace, name):
            check_uid(resource, obj, namespace, "", dry_run=options.dry_run)
            if not subresource:
                return self._create(resource, namespace, _of_any_version(obj), options, record)
        live = self.get(resource, namespace, name)
        check_uid(resource, obj, namespace, live.uid, dry_run=options.dry_run)
        return self._update(resource, live, obj, subresource, options, record)

    def _update(
        self,
        resource: Resource,
        live: Stored,
        obj: JsonObject,
        subresource: str,
        options: Options,
        record: _Record,
    ) -> Stored:
        old = self.to_dict(resource, live)
        set_namespace(resource, metadata_of(obj), live.namespace)
        self._check_version(resource, obj, live)
        carry_over(obj, old)
        self._apply_defaults(resource, obj)
        record(old, obj, subresource)
        strategies.prepare_for_update(resource, obj, old, subresource, now=self.clock())
        self.admission.update(resource, obj, old, subresource)
        strategies.count_generation(resource, obj, old, subresource)
        if self._is_validated(resource):
            self._check_changed(resource, obj, old, subresource, options)
        managed_fields.keep_times(old=old, new=obj)
        if obj == old and same(obj, old):
            return live
        if _is_finished(resource, obj):
            return live if options.dry_run else self.store.remove(live, self._as_kept(resource, obj))
        return self._write(resource, obj, options)

    def patch(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        patch: object,
        *,
        kind: PatchKind,
        subresource: str = "",
        options: Options | None = None,
    ) -> tuple[Stored, bool]:
        """Patch the object; return it and whether the patch created it."""
        options = options or Options()
        if kind == "apply":
            return self._server_side_apply(resource, namespace, name, patch, subresource, options)
        live = self.get(resource, namespace, name)
        obj = self._patched(resource, self.to_dict(resource, live), patch, kind, options)
        check_name(obj, name)
        record = self._record_update(resource, options)
        return self._update(resource, live, obj, subresource, options, record), False

    def _patched(
        self, resource: Resource, obj: JsonObject, patch: object, kind: PatchKind, options: Options
    ) -> JsonObject:
        if kind == "json":
            patched = patches.apply_json_patch(obj, patch)
        elif kind == "merge":
            patched = patches.apply_merge_patch(obj, patch)
        else:
            patched = patches.apply_strategic_merge_patch(obj, patch, self.schema_of(resource))
            # Parity: a patch cannot change apiVersion and kind.
            patched |= {"apiVersion": resource.api_version, "kind": resource.kind}
        try:
            return self._conforming(resource, patched, options)
        except api_errors.BadRequest as error:
            text = go_text(patch) if kind == "strategic" else sorted_json(patched)
            why = str(error).removeprefix(_cannot_be_handled(resource))
            refusal = api_errors.FieldError(api_errors.INVALID, "patch", f"Invalid value: {go_quote(text)}: {why}")
            raise api_errors.invalid("", "", "", [refusal]) from None

    def _server_side_apply(
        self, resource: Resource, namespace: str, name: str, patch: object, subresource: str, options: Options
    ) -> tuple[Stored, bool]:
        if not isinstance(patch, dict):
            raise api_errors.BadRequest("error decoding YAML: an apply patch must be an object")
        _check_kind(resource, patch)
        applied, metadata = patch, metadata_of(patch)
        if metadata.setdefault("name", name) != name:
            raise api_errors.BadRequest(
                f"the name of the object ({metadata['name']}) does not match the name on the URL ({name})"
            )
        if namespace:
            metadata.setdefault("namespace", namespace)
        live = self.store.get(resource.storage, namespace, name)
        if live is None and subresource:
            raise api_errors.not_found(resource.plural, resource.group, name)
        old = self.to_dict(resource, live) if live is not None else None
        if metadata.get("resourceVersion") and live is not None:
            self._check_version(resource, applied, live)
        merged = managed_fields.apply(
            live=old,
            applied=applied,
            type=self.schema_of(resource),
            manager=options.field_manager,
            force=options.force,
            subresource=subresource,
            api_version=resource.api_version,
            time=timestamp(self.clock()),
            reset=_not_owned(resource),
        )
        merged = self._conforming(resource, merged, options)
        if live is None:
            _check_uid_of_new(resource, merged)
            return self._create(resource, namespace, _of_any_version(merged), options, _recorded_already), True
        return self._update(resource, live, merged, subresource, options, _recorded_already), False

    def replace(self, resource: Resource, obj: JsonObject, *, options: Options | None = None) -> Stored:
        """Write an object built by this server, without admission, validation and managed fields."""
        return self._write(resource, obj, options or Options())

    # Deleting

    def delete(
        self, resource: Resource, namespace: str, name: str, *, options: DeleteOptions | None = None
    ) -> Deletion:
        options = options or DeleteOptions()
        deletion.check_options(options)
        live = self.get(resource, namespace, name)
        deletion.check_preconditions(resource, live, options)
        self.admission.delete(resource, live)
        obj = live.to_dict()
        before = live.to_dict()
        stays = deletion.mark(resource, obj, options, now=self.clock())
        if not stays and options.dry_run:
            return Deletion(live, finished=True)
        if not stays:
            if resource.storage == "pods" and obj != before:
                # Parity: watchers see deletionGracePeriodSeconds 0 before the deletion.
                live = self.store.put(resource.storage, obj)
                obj = live.to_dict()
            return Deletion(self.store.remove(live, obj), finished=True)
        if obj == before or options.dry_run:
            return Deletion(live, finished=False)
        return Deletion(self.store.put(resource.storage, obj), finished=False)

    def delete_collection(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        selection: ListOptions | None = None,
        options: DeleteOptions | None = None,
    ) -> Sequence[Stored]:
        found = self.list(resource, namespace, selection).items
        return [self.delete(resource, one.namespace, one.name, options=options).stored for one in found]

    # Pods

    def bind(self, namespace: str, name: str, binding: JsonObject, *, options: Options | None = None) -> Stored:
        check_binding(namespace, name, binding)
        pods = self.of_storage("pods")
        live = self.get(pods, namespace, name)
        node = self.store.get("nodes", "", binding["target"]["name"])
        pod = live.to_dict()
        bind_pod(pod, binding, node.labels if node is not None else {}, now=self.clock())
        return self._write(pods, pod, options or Options())

    # Resources

    def of_storage(self, storage: str) -> Resource:
        resource = self.catalogue.of_storage(storage)
        if resource is None:
            raise api_errors.MethodNotAllowed(f"{storage} are not served")
        return resource

    def schema_of(self, resource: Resource) -> Struct:
        return self._custom.schema_of(resource) if resource.custom else schema_of(resource)

    def _apply_defaults(self, resource: Resource, obj: JsonObject) -> None:
        if resource.custom:
            self._custom.apply_defaults(resource, obj)
        else:
            apply_defaults(resource, obj)

    def _is_validated(self, resource: Resource) -> bool:
        # CustomResourceDefinitions are always validated, as the server relies on them.
        return self._stages.validation or resource.storage == DEFINITIONS

    def _check_new(self, resource: Resource, obj: JsonObject, options: Options) -> None:
        """Refuse invalid objects; add warnings for questionable ones."""
        errors = validation.validate_create(resource, obj)
        self._refuse(resource, obj, [*errors, *self._custom_errors(resource, obj, None, options)])
        options.warnings += warnings_of_create(resource, obj)

    def _check_changed(
        self, resource: Resource, obj: JsonObject, old: JsonObject, subresource: str, options: Options
    ) -> None:
        errors = validation.validate_update(resource, obj, old, subresource=subresource)
        self._refuse(resource, obj, [*errors, *self._custom_errors(resource, obj, old, options)])
        options.warnings += warnings_of_update(resource, obj, old, subresource)

    def _custom_errors(
        self, resource: Resource, obj: JsonObject, old: JsonObject | None, options: Options
    ) -> Sequence[api_errors.FieldError]:
        if resource.custom:
            return self._custom.validate(resource, obj, old)
        if resource.storage == DEFINITIONS:
            options.warnings += definition_warnings(obj, old)
            return validate_definition(obj, old)
        return ()

    # The stages of a write

    def _conforming(self, resource: Resource, obj: JsonObject, options: Options) -> JsonObject:
        """Check the object's kind and types, and drop unknown fields."""
        _check_kind(resource, obj)
        complaints = conform(self.schema_of(resource), obj)
        if self.catalogue.kubernetes < BINARY_VERSION:
            complaints = [*complaints, *drop_newer(self.schema_of(resource), obj, self.catalogue.kubernetes)]
        if complaints and options.field_validation == "Strict":
            listed = ", ".join(complaints)
            raise api_errors.BadRequest(f"{_cannot_be_handled(resource)}strict decoding error: {listed}")
        if options.field_validation == "Warn":
            options.warnings += complaints
        return obj

    def _check_version(self, resource: Resource, obj: JsonObject, live: Stored) -> None:
        required = version_asked(obj)
        if required and required != live.version:
            raise api_errors.conflict(resource.plural, resource.group, live.name, MODIFIED)
        if not required and (resource.custom or resource.versioned_updates):
            error = api_errors.FieldError(
                api_errors.INVALID, "metadata.resourceVersion", "Invalid value: 0: must be specified for an update"
            )
            # Parity: the message names the resource, not the kind.
            raise api_errors.invalid(resource.plural, resource.group, live.name, [error])

    def _refuse(self, resource: Resource, obj: JsonObject, errors: Sequence[api_errors.FieldError]) -> None:
        if errors:
            # Parity: events of both groups are validated in their core form.
            group = "" if resource.storage == "events" else resource.group
            raise api_errors.invalid(resource.kind, group, metadata_of(obj).get("name", ""), errors)

    def _record_update(self, resource: Resource, options: Options) -> _Record:
        def record(old: JsonObject | None, new: JsonObject, subresource: str) -> None:
            if not self._stages.managed_fields and (old is None or "managedFields" not in metadata_of(old)):
                # Not tracked until the first apply, as upstream does for objects whose managers were cleared.
                metadata_of(new).pop("managedFields", None)
                return
            managed_fields.record_update(
                old=old,
                new=new,
                type=self.schema_of(resource),
                manager=options.field_manager,
                subresource=subresource,
                api_version=resource.api_version,
                time=timestamp(self.clock()),
                reset=_not_owned(resource),
            )

        return record

    def _as_kept(self, resource: Resource, obj: JsonObject) -> JsonObject:
        return conversion.to_storage(resource, obj, stored_as=self.of_storage(resource.storage))

    def _write(self, resource: Resource, obj: JsonObject, options: Options) -> Stored:
        kept = self._as_kept(resource, obj)
        if options.dry_run:
            version = int(metadata_of(obj).get("resourceVersion") or 0)
            return stored_of(resource.storage, kept, version=version)
        return self.store.put(resource.storage, kept)


def _cannot_be_handled(resource: Resource) -> str:
    return f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: '


def _already_exists(resource: Resource, there: Stored) -> api_errors.AlreadyExists:
    error = api_errors.already_exists(resource.plural, resource.group, there.name)
    if not metadata_of(there.to_dict()).get("deletionTimestamp"):
        return error
    return api_errors.AlreadyExists(f"object is being deleted: {error}", details=error.status.details)


def _of_any_version(obj: JsonObject) -> JsonObject:
    """Check the resourceVersion of an object to create, and drop it."""
    version_asked(obj)
    metadata_of(obj).pop("resourceVersion", None)
    return obj


def _check_uid_of_new(resource: Resource, obj: JsonObject) -> None:
    metadata = metadata_of(obj)
    if uid := metadata.get("uid"):
        why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        raise api_errors.conflict(resource.plural, resource.group, metadata["name"], why)


def _recorded_already(_old: JsonObject | None, _new: JsonObject, _subresource: str) -> None:
    """A no-op: server-side apply has already updated managedFields."""


def _check_kind(resource: Resource, obj: JsonObject) -> None:
    if not isinstance(obj.get("metadata"), dict | None):
        raise api_errors.BadRequest(f"{resource.kind}: metadata must be an object")
    metadata_of(obj)
    if resource.custom and not obj.get("kind"):
        # Parity: apiVersion and kind are defaulted for built-in kinds only.
        raise api_errors.BadRequest(f"{_cannot_be_handled(resource)}Object 'Kind' is missing in '{sorted_json(obj)}'")
    for name, own in (("apiVersion", resource.api_version), ("kind", resource.kind)):
        obj[name] = obj.get(name) or own
    version, kind = obj["apiVersion"], obj["kind"]
    if kind != resource.kind:
        raise api_errors.BadRequest(
            f'{kind} in version "{version}" cannot be handled as a {resource.kind}: this path takes '
            f'kind "{resource.kind}" of apiVersion "{resource.api_version}"'
        )
    if version != resource.api_version:
        raise api_errors.BadRequest(
            f"the API version in the data ({version}) does not match the expected API version ({resource.api_version})"
        )


def _not_owned(resource: Resource) -> JsonObject | None:
    """The reset fields of custom resources without status; None for the default of the subresource."""
    return {} if resource.custom and not resource.has_status else None


def _is_finished(resource: Resource, obj: JsonObject) -> bool:
    """Whether this write removed the last finalizer of an object that is being deleted."""
    metadata = metadata_of(obj)
    if not metadata.get("deletionTimestamp") or metadata.get("finalizers"):
        return False
    if resource.storage == "namespaces":
        return not (obj.get("spec") or {}).get("finalizers")
    return not metadata.get("deletionGracePeriodSeconds")
