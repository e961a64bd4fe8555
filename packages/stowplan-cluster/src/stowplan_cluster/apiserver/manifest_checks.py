"""Report what an API server would reject in a manifest, for commands that read files.

Found by the entry-point group `stowplan.manifest_checks`. Unknown fields and invalid values are errors: with them an
answer about the object would mislead. Missing or duplicate values are only warnings: a pod without an image can be
placed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

import msgspec

from stowplan.kube.api.api_errors import BadRequest, FieldError
from stowplan_cluster.apiserver import validation
from stowplan_cluster.apiserver.admission.service_addresses import allocate_addresses
from stowplan_cluster.apiserver.conversion import to_storage
from stowplan_cluster.apiserver.defaults import apply_defaults
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.resources import BUILT_IN, Catalogue, Resource
from stowplan_cluster.apiserver.schema import conform, schema_of
from stowplan_cluster.apiserver.schema.type_model import ListType, Struct, Type
from stowplan_cluster.apiserver.strategies.workloads import generate_selector

_MISLEADING = frozenset(("FieldValueInvalid", "FieldValueNotSupported"))
#: Field paths of pod templates in workloads.
_OF_PODS = ("spec.template.spec.", "spec.jobTemplate.spec.template.spec.")

_UNKNOWN_FIELD = re.compile(r'unknown field "(.*)"')
_INDEX = re.compile(r"\[\d+\]")

_CATALOGUE = Catalogue(BUILT_IN)


def findings(manifest: Mapping[str, Any], *, only_fields: bool = False) -> Iterator[tuple[bool, str]]:
    """Yield (whether it is an error, message) for each problem, or only unknown fields; custom kinds have none."""
    api_version, kind = manifest.get("apiVersion", ""), manifest.get("kind", "")
    resource = _CATALOGUE.of_kind(api_version, kind)
    if resource is None:
        if unserved := _CATALOGUE.unserved(api_version, kind):
            yield False, unserved
        return
    # Copy through JSON: defaults modify their input, which belongs to the caller.
    obj = msgspec.json.decode(msgspec.json.encode(manifest))
    try:
        unknown = conform(schema_of(resource), obj)
    except BadRequest as error:
        yield True, str(error)
        return
    for complaint in unknown:
        yield True, f"{complaint}{_meant(schema_of(resource), complaint)}"
    if unknown or only_fields:
        # A required field may be missing because it is misspelled.
        return
    _complete(resource, obj)
    for problem in validation.validate_create(resource, obj):
        yield _misleads(resource, problem), str(problem)


def _complete(resource: Resource, obj: JsonObject) -> None:
    """Add what the server does before validation."""
    if resource.namespaced:
        obj["metadata"].setdefault("namespace", "default")
    apply_defaults(resource, obj)
    if resource.storage == "services":
        allocate_addresses(obj, lambda *_: [])
    if resource.storage == "jobs.batch":
        obj["metadata"]["uid"] = "uid"
        generate_selector(obj, 0.0)


def _meant(schema: Struct, complaint: str) -> str:
    """For an unknown field, the field of the same struct that is spelled most like it, as a question."""
    found = _UNKNOWN_FIELD.fullmatch(complaint)
    if found is None:
        return ""
    *parents, name = _INDEX.sub("", found[1]).split(".")
    struct: Type = schema
    for parent in parents:
        inner = struct.fields.get(parent) if isinstance(struct, Struct) else None
        while isinstance(inner, ListType):
            inner = inner.element
        if inner is None:
            return ""
        struct = inner
    near = get_close_matches(name, struct.fields, n=1) if isinstance(struct, Struct) else []
    return f"; did you mean {near[0]}?" if near else ""


def _misleads(resource: Resource, problem: FieldError) -> bool:
    if problem.reason not in _MISLEADING:
        return False
    # Of a workload only the pod template matters.
    return resource.group not in ("apps", "batch") or problem.field.startswith(_OF_PODS)


def stored_form(manifest: Mapping[str, Any]) -> tuple[JsonObject, list[str]]:
    """The object of a built-in kind as an API server would store it, and why it would be refused."""
    api_version, kind = manifest.get("apiVersion", ""), manifest.get("kind", "")
    resource = _CATALOGUE.of_kind(api_version, kind)
    if resource is None:
        return {}, [_CATALOGUE.unserved(api_version, kind) or f"kind {kind!r} of {api_version!r} is not served here"]
    obj = msgspec.json.decode(msgspec.json.encode(manifest))
    try:
        complaints = [f"{one}{_meant(schema_of(resource), one)}" for one in conform(schema_of(resource), obj)]
    except BadRequest as error:
        return {}, [str(error)]
    if complaints:
        return {}, complaints
    _complete(resource, obj)
    problems = [str(problem) for problem in validation.validate_create(resource, obj)]
    return to_storage(resource, obj, stored_as=_CATALOGUE.of_storage(resource.storage)), problems
