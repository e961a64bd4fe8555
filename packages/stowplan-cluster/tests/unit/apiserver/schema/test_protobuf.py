"""Objects sent as protobuf decode to the same as JSON."""

import base64
import copy
import json
import struct
from datetime import datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stowplan.kube.api.api_errors import BadRequest
from stowplan_cluster.apiserver.schema import conform
from stowplan_cluster.apiserver.schema.conform import JSON_SCHEMA, canonical_quantity
from stowplan_cluster.apiserver.schema.parse import built_in
from stowplan_cluster.apiserver.schema.protobuf import MAGIC, MAX_DEPTH, decode
from stowplan_cluster.apiserver.schema.type_model import ListType, MapType, Scalar, Struct, Zero
from support.examples import times

SCHEMAS = built_in()
DELETE_OPTIONS = SCHEMAS.structs["io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"]
EPOCH = datetime(1970, 1, 1)
_CHOICES = (Scalar.SCHEMA_OR_LIST, Scalar.SCHEMA_OR_BOOL, Scalar.SCHEMA_OR_NAMES)


# Encoding as Go does: every non-pointer field is written, zero or not


def varint(value):
    value &= (1 << 64) - 1
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def tagged(number, wire, value):
    return varint(number << 3 | wire) + value


def sized(number, value):
    return tagged(number, 2, varint(len(value)) + value)


def timestamp(text):
    if text is None:
        return b""
    since = datetime.fromisoformat(text.removesuffix("Z")) - EPOCH
    seconds = since // timedelta(seconds=1)
    return tagged(1, 0, varint(seconds)) + tagged(
        2, 0, varint(since % timedelta(seconds=1) // timedelta(microseconds=1) * 1000)
    )


def int_or_string(value):
    is_text = isinstance(value, str)
    number, text = (0, value) if is_text else (value, "")
    return tagged(1, 0, varint(is_text)) + tagged(2, 0, varint(number)) + sized(3, text.encode())


_INLINE = {
    Scalar.BOOL: (0, varint),
    Scalar.INT32: (0, varint),
    Scalar.INT64: (0, varint),
    Scalar.NUMBER: (1, lambda value: struct.pack("<d", value)),
}
_SIZED = {
    Scalar.STRING: str.encode,
    Scalar.BYTES: base64.b64decode,
    Scalar.QUANTITY: lambda value: sized(1, value.encode()),
    Scalar.INT_OR_STRING: int_or_string,
    Scalar.TIME: timestamp,
    Scalar.MICRO_TIME: timestamp,
    Scalar.ANY: lambda value: sized(1, json.dumps(value).encode()),
}
_ZEROS = {Scalar.BOOL: False, Scalar.INT32: 0, Scalar.INT64: 0, Scalar.NUMBER: 0, Scalar.STRING: ""}


class Writer:
    """`packed`: repeated numbers in one field; `backwards`: highest field numbers first."""

    def __init__(self, *, packed=False, backwards=False):
        self.packed = packed
        self.backwards = backwards

    def envelope(self, obj, type):
        type_meta = sized(1, obj["apiVersion"].encode()) + sized(2, obj["kind"].encode())
        return MAGIC + sized(1, type_meta) + sized(2, self.message(type, obj)) + sized(3, b"") + sized(4, b"")

    def message(self, type, obj):
        parts = []
        for number, field in sorted(type.wire.items(), reverse=self.backwards):
            if not field.name:
                parts.append(sized(number, self.message(field.type, obj)))
            elif field.name in obj:
                parts.append(self.field(number, field.type, obj[field.name]))
            elif type.zeros[field.name] is not Zero.KEPT and field.type in _ZEROS:
                parts.append(self.field(number, field.type, _ZEROS[field.type]))
        return b"".join(parts)

    def field(self, number, type, value):
        if isinstance(type, ListType):
            if self.packed and type.element in _INLINE:
                return sized(number, b"".join(_INLINE[type.element][1](item) for item in value))
            return b"".join(self.field(number, type.element, item) for item in value)
        if isinstance(type, MapType):
            return b"".join(sized(number, self.entry(type.value, key, item)) for key, item in value.items())
        if type in _INLINE:
            wire, encode = _INLINE[type]
            return tagged(number, wire, encode(value))
        if isinstance(type, Struct):
            return sized(number, self.message(type, value))
        return sized(number, self.choice(type, value) if type in _CHOICES else _SIZED[type](value))

    def entry(self, type, key, item):
        value = sized(2, self.field(1, type, item)) if isinstance(type, ListType) else self.field(2, type, item)
        parts = [sized(1, key.encode()), value]
        return b"".join(reversed(parts) if self.backwards else parts)

    def choice(self, type, value):
        schema = SCHEMAS.structs[JSON_SCHEMA]
        if type is Scalar.SCHEMA_OR_BOOL:
            if isinstance(value, bool):
                return tagged(1, 0, varint(value))
            return tagged(1, 0, varint(1)) + self.field(2, schema, value)
        if isinstance(value, dict):
            return self.field(1, schema, value)
        return self.field(2, ListType(schema if type is Scalar.SCHEMA_OR_LIST else Scalar.STRING), value)


def encode(obj, **options):
    return Writer(**options).envelope(obj, type_of(obj["apiVersion"], obj["kind"]))


# Objects that fit their types


TEXTS = st.text(max_size=4)
TIMES = st.datetimes(min_value=datetime(1, 1, 2)).map(
    lambda time: time.isoformat(timespec="seconds").partition(".")[0] + "Z"
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=4,
)
VALUES = {
    Scalar.STRING: TEXTS,
    Scalar.BOOL: st.booleans(),
    Scalar.INT32: st.integers(-(1 << 31), (1 << 31) - 1) | st.just(0),
    Scalar.INT64: st.integers(-(1 << 63), (1 << 63) - 1) | st.just(0),
    Scalar.NUMBER: st.integers(-1000, 1000) | st.floats(allow_nan=False, allow_infinity=False, width=32),
    Scalar.BYTES: st.binary(max_size=4).map(lambda data: base64.b64encode(data).decode()),
    Scalar.QUANTITY: st.sampled_from(["0", "0.5", "1.5Gi", "1e3", "-1"]).map(canonical_quantity),
    Scalar.INT_OR_STRING: st.integers(-(1 << 31), (1 << 31) - 1) | TEXTS,
    Scalar.TIME: TIMES,
    Scalar.MICRO_TIME: st.datetimes(min_value=datetime(1, 1, 2)).map(
        lambda time: time.isoformat(timespec="microseconds") + "Z"
    ),
    Scalar.ANY: JSON,
}


@st.composite
def values(draw, type, depth=0, *, empty=True):
    """`empty` allows empty lists and maps."""
    size = draw(st.integers(0 if empty else 1, 2))
    if isinstance(type, ListType):
        return [draw(values(type.element, depth + 1)) for _ in range(size)]
    if isinstance(type, MapType):
        return {name: draw(values(type.value, depth + 1)) for name in ("", "a", "b.c/d")[:size]}
    if isinstance(type, Struct):
        return draw(messages(type, depth + 1))
    if type not in _CHOICES:
        return draw(VALUES[type])
    schema = SCHEMAS.structs[JSON_SCHEMA]
    if draw(st.booleans()):
        return draw(messages(schema, depth + 1))
    if type is Scalar.SCHEMA_OR_BOOL:
        return draw(st.booleans())
    return draw(values(ListType(schema if type is Scalar.SCHEMA_OR_LIST else Scalar.STRING), depth, empty=False))


def names_on_wire(type):
    for field in type.wire.values():
        yield from [field.name] if field.name else names_on_wire(field.type)


@st.composite
def messages(draw, type, depth=0):
    """Lists and maps are empty only if they are omitted when empty: protobuf cannot distinguish empty from absent."""
    names = sorted(names_on_wire(type))
    if depth > 7 or not names:
        return {}
    drawn = draw(st.lists(st.sampled_from(names), max_size=4 if depth < 3 else 2, unique=True))
    return {name: draw(values(type.fields[name], depth, empty=type.zeros[name] is Zero.DROPPED)) for name in drawn}


def type_of(api_version, kind):
    return SCHEMAS.kinds.get((api_version, kind), DELETE_OPTIONS)


@st.composite
def objects(draw, api_version, kind):
    return {**draw(messages(type_of(api_version, kind))), "apiVersion": api_version, "kind": kind}


KINDS = [*(kind for kind, type in SCHEMAS.kinds.items() if not type.preserve_unknown), ("apps/v1", "DeleteOptions")]


@settings(max_examples=times(300), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data(), kind=st.sampled_from(KINDS), packed=st.booleans(), backwards=st.booleans())
@pytest.mark.slow
def test_round_trip(data, kind, packed, backwards):
    obj = data.draw(objects(*kind))
    assert conform(type_of(*kind), obj) == []
    expected = copy.deepcopy(obj)

    assert decode(encode(obj, packed=packed, backwards=backwards), SCHEMAS) == expected


def is_an_object_or_refused(body):
    """The decoded object conforms to its kind and can be stored; otherwise the message gives the reason."""
    try:
        obj = decode(body, SCHEMAS)
    except BadRequest as error:
        return bool(str(error))
    json.dumps(obj, allow_nan=False)
    return conform(type_of(obj["apiVersion"], obj["kind"]), copy.deepcopy(obj)) == []


@settings(max_examples=times(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data(), kind=st.sampled_from(KINDS))
def test_damaged_objects_are_read_or_refused(data, kind):
    obj = data.draw(objects(*kind))
    conform(type_of(*kind), obj)
    body = bytearray(encode(obj))
    for place in data.draw(st.lists(st.integers(len(MAGIC), len(body) - 1), min_size=1, max_size=4)):
        body[place] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(body)))
    for damaged in (bytes(body), bytes(body[:cut])):
        assert is_an_object_or_refused(damaged)


@given(kind=st.sampled_from(KINDS), raw=st.binary(max_size=60))
def test_any_bytes_are_an_object_or_refused(kind, raw):
    body = MAGIC + sized(1, sized(1, kind[0].encode()) + sized(2, kind[1].encode())) + sized(2, raw)
    for tried in (body, raw, MAGIC + raw):
        assert is_an_object_or_refused(tried)


# Hand-made messages


def body_of(kind, raw, api_version="v1"):
    return MAGIC + sized(1, sized(1, api_version.encode()) + sized(2, kind.encode())) + sized(2, raw)


def read(kind, raw, api_version="v1"):
    return decode(body_of(kind, raw, api_version), SCHEMAS)


#: What `kubectl create deployment web --image=nginx` sends.
DEPLOYMENT = bytes.fromhex(
    "6b3873000a150a07617070732f7631120a4465706c6f796d656e7412ab010a1f0a0377656212001a0022002a003200380042005a0a"
    "0a036170701203776562127a0801120c0a0a0a03617070120377656 21a600a1c0a0012001a0022002a003200380042005a0a0a0361"
    "7070120377656212401222 0a056e67696e7812056e67696e782a0042006a0072008001008801009001 00a201001a00320042004a00"
    "52005800600068008201008a01009a0100c2010022020a0028003800 1a0c080010001800200028003800 1a002200".replace(" ", "")
)


def test_a_request_of_kubectl():
    labels = {"app": "web"}
    assert decode(DEPLOYMENT, SCHEMAS) == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "labels": labels},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "nginx", "image": "nginx", "resources": {}}]},
            },
            "strategy": {},
        },
        "status": {},
    }


def test_zero_values_of_pointers_are_kept():
    spec = tagged(1, 0, b"\x00") + tagged(5, 0, b"\x00") + tagged(6, 0, b"\x00") + tagged(7, 0, b"\x00")
    found = read("Deployment", sized(2, spec), "apps/v1")["spec"]

    assert {"replicas", "revisionHistoryLimit"} <= found.keys()
    assert (found["replicas"], found["revisionHistoryLimit"]) == (0, 0)
    assert not {"minReadySeconds", "paused"} & found.keys()


def test_unknown_fields_are_skipped():
    unknown = tagged(500, 0, b"\x01") + sized(501, b"\xff\xff") + tagged(502, 1, bytes(8)) + b"\xbb\x1f\xbc\x1f"
    assert read("ConfigMap", sized(1, unknown + sized(1, b"a")) + unknown)["metadata"] == {"name": "a"}


def test_later_values_win_and_messages_merge():
    first = sized(1, sized(1, b"a") + sized(3, b"ns") + sized(11, sized(1, b"k") + sized(2, b"1")))
    second = sized(1, sized(1, b"b") + sized(11, sized(1, b"k") + sized(2, b"2")) + sized(14, b"f"))
    found = read("ConfigMap", first + second + sized(1, sized(14, b"g")))["metadata"]

    assert found == {"name": "b", "namespace": "ns", "labels": {"k": "2"}, "finalizers": ["f", "g"]}


def test_a_later_zero_wins():
    assert read("ConfigMap", sized(1, sized(1, b"a") + sized(1, b"")))["metadata"] == {}


def test_map_entries_without_key_or_value():
    assert read("ConfigMap", sized(2, sized(1, b"k")) + sized(2, sized(2, b"v")))["data"] == {"k": "", "": "v"}


def test_embedded_structs_are_messages_of_their_own():
    volume = sized(1, b"v") + sized(2, sized(19, sized(1, sized(1, b"config")) + tagged(3, 0, varint(420))))
    pod = read("Pod", sized(2, sized(1, volume)))

    assert pod["spec"]["volumes"] == [{"name": "v", "configMap": {"name": "config", "defaultMode": 420}}]


@pytest.mark.parametrize("api_version", ["v1", "apps/v1", "meta.k8s.io/v1", "example.com/v1"])
def test_every_group_has_delete_options(api_version):
    raw = tagged(1, 0, b"\x00") + sized(4, b"Background")

    assert read("DeleteOptions", raw, api_version) == {
        "apiVersion": api_version,
        "kind": "DeleteOptions",
        "gracePeriodSeconds": 0,
        "propagationPolicy": "Background",
    }


def test_other_fields_of_the_envelope_are_ignored():
    again = sized(1, sized(2, b"Secret")) + sized(3, b"gzip") + sized(4, b"any") + sized(9, b"unknown")

    assert decode(body_of("ConfigMap", b"") + again, SCHEMAS)["kind"] == "Secret"


NOT = next(number for number, field in SCHEMAS.structs[JSON_SCHEMA].wire.items() if field.name == "not")


def nested_schema(levels):
    schema = sized(5, b"object")
    for _ in range(levels):
        schema = sized(NOT, schema)
    version = sized(1, b"v1") + sized(4, sized(1, schema))
    return body_of("CustomResourceDefinition", sized(2, sized(7, version)), "apiextensions.k8s.io/v1")


def test_nesting_is_bounded():
    decode(nested_schema(MAX_DEPTH - 10), SCHEMAS)
    for levels in (MAX_DEPTH, 5_000):
        with pytest.raises(BadRequest, match="exceeded max depth"):
            decode(nested_schema(levels), SCHEMAS)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        pytest.param(b"", "it does not begin with b'k8s", id="nothing"),
        pytest.param(b"{}", "it does not begin with b'k8s", id="JSON"),
        pytest.param(MAGIC, "Object 'Kind' is missing", id="an empty envelope"),
        pytest.param(MAGIC + sized(1, sized(2, b"Pod")), "Object 'apiVersion' is missing", id="no version"),
        pytest.param(body_of("Endpoints", b""), "Endpoints of v1 is stored only", id="stored only"),
        pytest.param(body_of("Bogus", b""), 'no kind "Bogus" is registered for version "v1"', id="no such kind"),
        pytest.param(body_of("Pod", b"\x0a\x05"), "message.: unexpected end", id="truncated"),
        pytest.param(body_of("Pod", sized(1, sized(1, b"\xff"))), "metadata.name: text that is not", id="no UTF-8"),
        pytest.param(body_of("Pod", sized(2, sized(1, b"\x08\x01"))), "spec.volumes.name: expected", id="wire type"),
        pytest.param(
            body_of("Pod", sized(1, sized(8, tagged(1, 0, varint(1 << 60))))),
            "metadata.creationTimestamp: a time out of range",
            id="invalid time",
        ),
        pytest.param(
            body_of("ControllerRevision", sized(2, sized(1, b"{")), "apps/v1"), "data: not JSON", id="no JSON inside"
        ),
        pytest.param(
            body_of("ControllerRevision", sized(2, sized(1, b"[" * 100_000)), "apps/v1"),
            "data: not JSON",
            id="deep JSON",
        ),
        pytest.param(
            body_of("PersistentVolume", sized(2, sized(1, sized(1, b"storage") + sized(2, sized(1, b"x"))))),
            "quantities must match",
            id="no quantity",
        ),
    ],
)
def test_refused(body, why):
    with pytest.raises(BadRequest, match=why):
        decode(body, SCHEMAS)


def test_numbers_of_schemas():
    schema = sized(9, b"")[:0] + tagged(9, 1, struct.pack("<d", 2.0)) + tagged(11, 1, struct.pack("<d", 0.5))
    version = sized(4, sized(1, schema))
    found = read("CustomResourceDefinition", sized(2, sized(7, version)), "apiextensions.k8s.io/v1")

    read_schema = found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert repr(read_schema) == "{'maximum': 2, 'minimum': 0.5}"


def test_times():
    lease = sized(3, tagged(1, 0, varint(-1)) + tagged(2, 0, varint(1999))) + sized(4, b"")
    found = read(
        "Lease",
        sized(1, sized(8, tagged(1, 0, varint(0)) + tagged(2, 0, varint(5)))) + sized(2, lease),
        "coordination.k8s.io/v1",
    )

    assert found["metadata"] == {"creationTimestamp": "1970-01-01T00:00:00Z"}
    assert found["spec"] == {"acquireTime": "1969-12-31T23:59:59.000001Z"}
