"""Random objects of the right types are accepted or refused with errors."""

import copy
import json
from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stowplan.kube.api.api_errors import ApiError
from stowplan_cluster.apiserver import strategies, validation
from stowplan_cluster.apiserver.admission import Admission
from stowplan_cluster.apiserver.defaults import apply_defaults
from stowplan_cluster.apiserver.quota_usage import QuotaUsage
from stowplan_cluster.apiserver.resources import BUILT_IN
from stowplan_cluster.apiserver.schema import conform, schema_of
from stowplan_cluster.apiserver.schema.type_model import ListType, MapType, Scalar, Struct
from stowplan_cluster.apiserver.store import Store
from support.examples import examples

TEXTS = (
    "",
    "a",
    "web-0",
    "A B",
    "a.b/c",
    "../x",
    "True",
    "Always",
    "Never",
    "Exists",
    "In",
    "Gt",
    "ExactCount",
    "RollingUpdate",
    "NoSchedule",
    "Indexed",
    "Localhost",
    "None",
    "ExternalName",
    "requests.hugepages-2Mi",
    "metadata.labels['x']",
    "10.0.0.1/8",
    "é\U0001f600",
    "x" * 300,
)
QUANTITIES = ("0", "1", "-1", "1500m", "2Mi", "1n", 3, "1e3")
KEYS = ("cpu", "memory", "hugepages-2Mi", "hugepages-x", "example.com/gpu", "pods", "storage", "a", "-", "x/y/z")
SCALARS = {
    Scalar.STRING: st.sampled_from(TEXTS),
    Scalar.BOOL: st.booleans(),
    Scalar.INT32: st.sampled_from((0, 1, -1, 5, 70000, 2**31 - 1, -(2**31))),
    Scalar.INT64: st.sampled_from((0, 1, -1, 2**63 - 1, -(2**63))),
    Scalar.NUMBER: st.sampled_from((0, 1.5, -2)),
    Scalar.QUANTITY: st.sampled_from(QUANTITIES),
    Scalar.INT_OR_STRING: st.sampled_from((0, 1, -1, "25%", "101%", "x", "", "9" * 5000 + "%")),
    Scalar.TIME: st.sampled_from(("2026-01-01T00:00:00Z",)),
    Scalar.MICRO_TIME: st.sampled_from(("2026-01-01T00:00:00.000001Z",)),
    Scalar.DURATION: st.sampled_from(("1s",)),
    Scalar.BYTES: st.sampled_from(("", "e30=", "bm8=")),
    Scalar.ANY: st.sampled_from(({}, {"a": [1]}, "x", 1, [])),
}
STORED = tuple(resource for resource in BUILT_IN if "get" in resource.verbs)
BY_NAME = {resource.qualified: resource for resource in STORED}
NOW = 1_767_225_600.0


@cache
def values(type_, depth):
    if isinstance(type_, Scalar):
        return SCALARS.get(type_, st.just({}))
    if isinstance(type_, ListType):
        return st.lists(values(type_.element, depth), max_size=2)
    if isinstance(type_, MapType):
        return st.dictionaries(st.sampled_from(KEYS), values(type_.value, depth), max_size=2)
    return structs(type_, depth - 1)


@cache
def field_names(struct, *, leaves):
    """Some of its fields; None if it has none."""
    names = [name for name, type_ in struct.fields.items() if not (leaves and holds_struct(type_))]
    return st.lists(st.sampled_from(names), unique=True, max_size=6) if names else None


def holds_struct(type_):
    if isinstance(type_, ListType):
        return holds_struct(type_.element)
    return holds_struct(type_.value) if isinstance(type_, MapType) else isinstance(type_, Struct)


@st.composite
def structs(draw, struct, depth):
    names = field_names(struct, leaves=depth <= 0)
    return {name: draw(values(struct.fields[name], depth)) for name in draw(names)} if names is not None else {}


@st.composite
def objects(draw, resource):
    """A random object of a kind, with the right types."""
    struct = schema_of(resource)
    obj = draw(structs(struct, 6))
    for name in ("spec", "status"):
        if name in struct.fields and isinstance(struct.fields[name], Struct) and draw(st.booleans()):
            obj[name] = draw(structs(struct.fields[name], 5))
    metadata = draw(structs(struct.fields["metadata"], 2)) | {"name": draw(st.sampled_from(TEXTS[1:]))}
    if resource.namespaced:
        metadata["namespace"] = "default"
    for name in ("deletionTimestamp", "generation", "managedFields", "resourceVersion"):
        metadata.pop(name, None)
    return obj | {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}


def conforming(resource, obj):
    conform(schema_of(resource), obj)
    return obj


class ActiveNamespace:
    def field(self, name):
        return {"status.phase": "Active"}[name]


def cluster():
    return Admission(
        lambda storage, *_: ActiveNamespace() if storage == "namespaces" else None, lambda _: [], QuotaUsage(Store())
    )


def created(resource, obj):
    apply_defaults(resource, obj)
    cluster().create(resource, obj)
    strategies.prepare_for_create(resource, obj, now=NOW)
    return validation.validate_create(resource, obj)


@pytest.mark.parametrize("name", BY_NAME)
@settings(examples(12), suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(data=st.data())
def test_any_object_is_accepted_or_refused(name, data):
    resource = BY_NAME[name]
    obj = conforming(resource, data.draw(objects(resource)))
    try:
        errors = created(resource, obj)
    except ApiError as error:
        errors = [error.status]
    assert check_errors(errors)


def check_errors(errors):
    """Each error has a message that JSON can represent."""
    return all(error.message and json.dumps(error.message) for error in errors)


@pytest.mark.parametrize("name", BY_NAME)
@settings(examples(8), suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(data=st.data())
def test_any_change_is_accepted_or_refused(name, data):
    resource = BY_NAME[name]
    old, new = (conforming(resource, data.draw(objects(resource))) for _ in range(2))
    subresource = data.draw(st.sampled_from(("", *(s for s in resource.subresources if s in WRITTEN))))
    try:
        created(resource, old)
        new["metadata"]["name"] = old["metadata"]["name"]
        apply_defaults(resource, new)
        strategies.prepare_for_update(resource, new, old, subresource, now=NOW)
        strategies.count_generation(resource, new, old, subresource)
        cluster().update(resource, new, old, subresource)
        errors = validation.validate_update(resource, new, old, subresource=subresource)
    except ApiError as error:
        errors = [error.status]
    assert check_errors(errors)


WRITTEN = ("status", "finalize", "ephemeralcontainers", "resize")


@pytest.mark.parametrize("name", BY_NAME)
@settings(examples(8), suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(data=st.data())
def test_defaulting_is_idempotent(name, data):
    resource = BY_NAME[name]
    obj = conforming(resource, data.draw(objects(resource)))
    try:
        apply_defaults(resource, obj)
    except ApiError:
        return
    once = copy.deepcopy(obj)
    apply_defaults(resource, obj)
    assert obj == once
    assert conforming(resource, copy.deepcopy(obj)) == obj


@pytest.mark.parametrize("name", BY_NAME)
@settings(examples(8), suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(data=st.data())
def test_an_accepted_object_may_be_updated_unchanged(name, data):
    resource = BY_NAME[name]
    obj = conforming(resource, data.draw(objects(resource)))
    try:
        refused = bool(created(resource, obj))
    except ApiError:
        return
    if refused:
        return
    same = copy.deepcopy(obj)
    apply_defaults(resource, same)
    strategies.prepare_for_update(resource, same, obj, "", now=NOW)
    strategies.count_generation(resource, same, obj, "")
    cluster().update(resource, same, obj)
    assert same == obj
    assert validation.validate_update(resource, same, obj) == []
