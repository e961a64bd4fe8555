"""A small object store that applies the scheduler's requests, without JSON and admission.

Objects are the structs of `stowplan.kube.api`, by kind, namespace and name. Each write gives the object the next
resource version, one series for all kinds, and returns its changes, which are delivered to watchers. Each write is one
change, except a pod's deletion: like an API server, it marks the pod first, even without a grace period. An unchanged
object is shared with the caller that added it. Refusals are the errors of an API server, and change nothing.

Left out: admission except for what its user adds, most of validation, defaults except for UID and creation time,
changes that a kind's strategy makes on status writes, generations except for those of pods, managed fields, earlier
versions.

Upstream: pkg/registry/core/pod/storage/storage.go (binding), k8s.io/apiserver/pkg/registry/generic/registry/store.go,
k8s.io/apiserver/pkg/registry/rest/delete.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil
from typing import Any, TypeVar, cast

import msgspec
from msgspec.structs import replace

from stowplan.drivers.virtual_time.patching import patched
from stowplan.kube.api.api_errors import (
    FORBIDDEN,
    INVALID,
    REQUIRED,
    FieldError,
    already_exists,
    conflict,
    invalid,
    not_found,
)
from stowplan.kube.api.custom_objects import CustomObject
from stowplan.kube.api.field_errors import go_quote
from stowplan.kube.api.meta import ApiStruct, ObjectMeta, parse_timestamp, timestamp
from stowplan.kube.api.pod import FINISHED, Pod, PodCondition
from stowplan.kube.api.port import Change
from stowplan.kube.api.resources import resource_of
from stowplan.kube.compiled import mypyc_attr
from stowplan.scheduler.framework.requests import Bind, Create, Delete, Patch, Request, Update

T = TypeVar("T", bound=ApiStruct)

#: Namespace and name.
Key = tuple[str, str]

_MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


@mypyc_attr(native_class=False)
class _ByKind(dict[type[ApiStruct], Any]):
    """Kind -> its objects, which `kept` makes when they are first asked for."""

    def __init__(self, kept: Callable[[type[ApiStruct]], Any]) -> None:
        super().__init__()
        self._kept = kept

    def __missing__(self, kind: type[ApiStruct]) -> Any:
        found = self[kind] = self._kept(kind)
        return found


@mypyc_attr(allow_interpreted_subclasses=True)
class ObjectStore:
    def __init__(self) -> None:
        #: Kind -> its objects, a mapping by key.
        self._objects = _ByKind(self._kept)
        #: The resource version of the last write.
        self.version = 0
        #: Kind -> what changes a new object, or raises ApiError to refuse it.
        self.admission: dict[type[ApiStruct], Callable[[Any], Any]] = {}
        #: The conditions of pods that are bound at the current time, which most of them share.
        self._scheduled: tuple[PodCondition, ...] = ()
        self._writes: dict[type[Request], Callable[[Any, float], Change[Any]]] = {
            Bind: self.bind,
            Create: self.create,
            Update: self.update,
            Patch: self.patch,
        }

    # -- reading ------------------------------------------------------------------------------------------------------

    def get(self, kind: type[T], namespace: str, name: str) -> T:
        """The object; raises NotFound."""
        found = self.find(kind, namespace, name)
        if found is None:
            raise _not_found(kind, name)
        return found

    def find(self, kind: type[T], namespace: str, name: str) -> T | None:
        """The object, or None."""
        return cast("T | None", self._objects[kind].get((namespace or _default_namespace(kind), name)))

    def list(self, kind: type[T], namespace: str = "") -> list[T]:
        """The objects of a kind, optionally in one namespace, in the order of an API server."""
        objects = self._objects[kind]
        return [objects[key] for key in sorted(objects) if not namespace or key[0] == namespace]

    def count(self, kind: type[ApiStruct]) -> int:
        return len(self._objects[kind])

    def _kept(self, kind: type[ApiStruct]) -> Any:
        """An empty mapping for the objects of a kind; a subclass may return something other than a dict."""
        return {}

    # -- writing ------------------------------------------------------------------------------------------------------

    def write(self, request: Request, now: float) -> Sequence[Change[Any]]:
        """Carry a request out. If it changes nothing, the old and new object of the change are identical."""
        if type(request) is Delete:
            return self.delete(request, now)
        return (self._writes[type(request)](request, now),)

    def create(self, request: Create, now: float) -> Change[Any]:
        """Add a new object; its UID and creation time are kept if it has them."""
        obj: Any = request.obj
        kind: type[ApiStruct] = type(obj)
        if kind in self.admission:
            obj = self.admission[kind](obj)
        metadata: ObjectMeta = obj.metadata
        if not metadata.name:
            self._check_name(kind, metadata)
        namespace = metadata.namespace or _default_namespace(kind)
        name = metadata.name or f"{metadata.generate_name}{self.version + 1:05}"
        objects = self._objects[kind]
        if (namespace, name) in objects:
            resource = resource_of(kind)
            raise already_exists(resource.plural, resource.group, name)
        self.version += 1
        metadata = replace(
            metadata,
            name=name,
            namespace=namespace,
            uid=metadata.uid or f"00000000-0000-4000-8000-{self.version:012}",
            creation_timestamp=metadata.creation_timestamp or timestamp(now),
            resource_version=str(self.version),
            generation=metadata.generation or int(kind is Pod),
        )
        obj = objects[namespace, name] = _with_metadata(obj, metadata)
        return Change(None, obj)

    def update(self, request: Update, now: float) -> Change[Any]:
        """Replace an object. Metadata fields that the server owns are kept."""
        obj: Any = request.obj
        metadata: ObjectMeta = obj.metadata
        old: Any = self.get(type(obj), metadata.namespace, metadata.name)
        self._check(type(obj), old.metadata, metadata.uid, metadata.resource_version)
        return self._replace(old, _with_metadata(obj, _servers_own(metadata, old.metadata)))

    def patch(self, request: Patch, now: float) -> Change[Any]:
        old: Any = self.get(request.kind, request.namespace, request.name)
        body = request.body
        wanted = (body.get("metadata") if isinstance(body, dict) else None) or {}
        self._check(request.kind, old.metadata, "", wanted.get("resourceVersion") or "")
        if (uid := wanted.get("uid")) and uid != old.metadata.uid:
            # Unlike that of a deletion or an update, this is no precondition.
            immutable = FieldError(INVALID, "metadata.uid", f"Invalid value: {go_quote(uid)}: field is immutable")
            raise invalid(resource_of(request.kind).kind, resource_of(request.kind).group, request.name, [immutable])
        new = patched(old, request)
        if new.metadata is not old.metadata:
            new = _with_metadata(new, _servers_own(new.metadata, old.metadata))
        return self._replace(old, new)

    def bind(self, request: Bind, now: float, annotations: Mapping[str, str] | None = None) -> Change[Pod]:
        pods = self._objects[Pod]
        key = request.namespace or "default", request.name
        old: Pod | None = pods.get(key)
        if old is None:
            raise _not_found(Pod, request.name)
        _check_bind(request, old)
        metadata, status = old.metadata, old.status
        if annotations:
            metadata = replace(metadata, annotations={**metadata.annotations, **annotations})
        new = pods[key] = replace(
            old,
            metadata=self._next_version(metadata),
            spec=replace(old.spec, node_name=request.node),
            status=replace(status, conditions=self._bound(status.conditions, now), nominated_node_name=""),
        )
        return Change(old, new)

    def delete(self, request: Delete, now: float, grace: float | None = 0.0) -> Sequence[Change[Any]]:
        """Delete an object. With finalizers, or a running pod with a grace period, it is only marked.

        `grace`: None keeps the period of a deletion in progress.
        """
        old: Any = self.get(request.kind, request.namespace, request.name)
        metadata: ObjectMeta = old.metadata
        self._check(request.kind, metadata, request.uid, request.resource_version)
        if type(old) is Pod:
            return self._delete_pod(old, now, grace)
        if not metadata.finalizers:
            return (self._remove(old),)
        return (Change(old, old if metadata.deletion_timestamp else self._mark(old, now, 0)),)

    def _delete_pod(self, pod: Pod, now: float, grace: float | None) -> Sequence[Change[Any]]:
        metadata = pod.metadata
        left = metadata.deletion_grace_period_seconds or 0
        if not metadata.deletion_timestamp:
            period = grace or 0.0 if runs(pod) else 0.0
            new = self._mark(pod, now + period, ceil(period))
        elif grace is not None and ceil(grace) < left:
            # Counted from the first deletion, and never extended.
            due, seconds = parse_timestamp(metadata.deletion_timestamp) - left + ceil(grace), ceil(grace)
            new = self._mark(pod, due, seconds) if due >= now else self._mark(pod, now, min(seconds, 1))
        else:
            new = pod
        if metadata.finalizers or new.metadata.deletion_grace_period_seconds:
            return (Change(pod, new),)
        return (self._remove(pod),) if new is pod else (Change(pod, new), self._remove(new))

    def _mark(self, old: Any, due: float, period: int) -> Any:
        metadata: ObjectMeta = old.metadata
        generation = metadata.generation
        if generation and not metadata.deletion_timestamp:
            generation += 1
        marked = replace(
            metadata,
            deletion_timestamp=timestamp(due),
            deletion_grace_period_seconds=period,
            generation=generation,
        )
        return self._keep(_with_metadata(old, self._next_version(marked)))

    def end(self, namespace: str, name: str, uid: str) -> Change[Pod] | None:
        """End the pod with this UID as its kubelet does: it is gone, or has finished if it has finalizers."""
        old: Pod | None = self._objects[Pod].get((namespace, name))
        if old is None or old.metadata.uid != uid:
            return None
        metadata = old.metadata
        if not metadata.finalizers:
            return self._remove(old)
        if old.status.phase in FINISHED:
            return None
        phase = "Succeeded"
        if metadata.deletion_timestamp:
            metadata, phase = replace(metadata, deletion_grace_period_seconds=0), "Failed"
        return self._replace(old, replace(old, metadata=metadata, status=replace(old.status, phase=phase)))

    def restore(self, obj: ApiStruct) -> None:
        """Add an object with its original version; the next write has a later one."""
        version = self._keep(obj).metadata.resource_version
        if version.isdecimal():
            self.version = max(self.version, int(version))

    # -- storage -------------------------------------------------------------------------------------------------------

    def _next_version(self, metadata: ObjectMeta) -> ObjectMeta:
        self.version += 1
        return replace(metadata, resource_version=str(self.version))

    def _keep(self, obj: Any) -> Any:
        metadata = obj.metadata
        self._objects[type(obj)][metadata.namespace, metadata.name] = obj
        return obj

    def _replace(self, old: Any, new: Any) -> Change[Any]:
        metadata: ObjectMeta = new.metadata
        if new == old:
            return Change(old, old)
        if type(new) is Pod:
            _check_nomination(old, new)
            if new.spec != old.spec:
                metadata = replace(metadata, generation=metadata.generation + 1)
        if metadata.deletion_timestamp and not metadata.finalizers and not metadata.deletion_grace_period_seconds:
            # The last finalizer was removed.
            return self._remove(old)
        return Change(old, self._keep(_with_metadata(new, self._next_version(metadata))))

    def _remove(self, old: Any) -> Change[Any]:
        self.version += 1
        metadata = old.metadata
        del self._objects[type(old)][metadata.namespace, metadata.name]
        return Change(old, None)

    def _bound(self, conditions: tuple[PodCondition, ...], now: float) -> tuple[PodCondition, ...]:
        """The conditions of a pod that is bound now."""
        at = timestamp(now)
        if not conditions:
            if not self._scheduled or self._scheduled[0].last_transition_time != at:
                self._scheduled = (PodCondition(type="PodScheduled", status="True", last_transition_time=at),)
            return self._scheduled
        known = next((one for one in conditions if one.type == "PodScheduled"), None)
        since = known.last_transition_time if known is not None and known.status == "True" else at
        scheduled = PodCondition(type="PodScheduled", status="True", last_transition_time=since)
        if known is None:
            return (*conditions, scheduled)
        return tuple(scheduled if one is known else one for one in conditions)

    # -- validation ----------------------------------------------------------------------------------------------------

    def _check_name(self, kind: type[ApiStruct], metadata: ObjectMeta) -> None:
        if not metadata.name and not metadata.generate_name:
            resource = resource_of(kind)
            missing = FieldError(REQUIRED, "metadata.name", "Required value: name or generateName is required")
            raise invalid(resource.kind, resource.group, "", [missing])

    def _check(self, kind: type[ApiStruct], have: ObjectMeta, uid: str, version: str) -> None:
        """Raise Conflict for preconditions that the object does not meet; "" is no precondition."""
        resource = resource_of(kind)
        if uid and uid != have.uid:
            raise _uid_conflict(resource.plural, resource.group, have, uid)
        if version and version != have.resource_version:
            raise conflict(resource.plural, resource.group, have.name, _MODIFIED)


def runs(obj: Any) -> bool:
    """Whether it is an unfinished pod on a node, which only its kubelet removes."""
    return type(obj) is Pod and bool(obj.spec.node_name) and obj.status.phase not in FINISHED


def _check_bind(request: Bind, pod: Pod) -> None:
    metadata, name = pod.metadata, request.name
    if request.uid and request.uid != metadata.uid:
        raise _uid_conflict("pods", "", metadata, request.uid)
    if metadata.deletion_timestamp:
        raise conflict("pods/binding", "", name, f"pod {name} is being deleted, cannot be assigned to a host")
    if pod.spec.node_name:
        raise conflict("pods/binding", "", name, f'pod {name} is already assigned to node "{pod.spec.node_name}"')
    if pod.spec.scheduling_gates:
        raise conflict("pods/binding", "", name, f"pod {name} has non-empty .spec.schedulingGates")


def _check_nomination(old: Pod, new: Pod) -> None:
    nominated = new.status.nominated_node_name
    if nominated and nominated != old.status.nominated_node_name and old.spec.node_name:
        what = "Forbidden: may not be set on pods that are already bound to a node"
        raise invalid("Pod", "", old.metadata.name, [FieldError(FORBIDDEN, "status.nominatedNodeName", what)])


def _uid_conflict(resource: str, group: str, have: ObjectMeta, wanted: str) -> Exception:
    why = f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {have.uid}"
    return conflict(resource, group, have.name, why)


def _not_found(kind: type[ApiStruct], name: str) -> Exception:
    resource = resource_of(kind)
    return not_found(resource.plural, resource.group, name)


def _default_namespace(kind: type[ApiStruct]) -> str:
    return "default" if resource_of(kind).namespaced else ""


def _servers_own(metadata: ObjectMeta, old: ObjectMeta) -> ObjectMeta:
    """The metadata, with the old values of fields that clients cannot change."""
    return replace(
        metadata,
        name=old.name,
        namespace=old.namespace,
        uid=old.uid,
        resource_version=old.resource_version,
        generation=old.generation,
        creation_timestamp=old.creation_timestamp,
        deletion_timestamp=old.deletion_timestamp,
        deletion_grace_period_seconds=old.deletion_grace_period_seconds,
    )


def _with_metadata(obj: T, metadata: ObjectMeta) -> T:
    if type(obj) is Pod or not isinstance(obj, CustomObject):
        return replace(obj, metadata=metadata)
    # The content also has these fields, next to metadata that we do not parse.
    known = obj.content.get("metadata") or {}
    unknown = {name: value for name, value in known.items() if name not in ObjectMeta.__struct_encode_fields__}
    content = {**obj.content, "metadata": {**unknown, **msgspec.to_builtins(metadata)}}
    return replace(obj, metadata=metadata, content=content)
