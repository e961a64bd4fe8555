"""The shape of KubeSchedulerConfiguration in its older versions, told as differences from the next one.

Upstream: k8s.io/kube-scheduler/config/{v1alpha1,v1alpha2,v1beta1,v1beta2,v1beta3} of the releases 1.16 to 1.28.
"""

from collections.abc import Mapping
from dataclasses import replace

from stowplan.config.schema import (
    BOOL,
    CONFIGURATION,
    GROUP,
    INT32,
    INT64,
    STRING,
    Field,
    Pointer,
    Slice,
    Struct,
    Type,
    struct,
)

#: Oldest first.
VERSIONS = ("v1alpha1", "v1alpha2", "v1beta1", "v1beta2", "v1beta3")


def api_version(version: str) -> str:
    return f"{GROUP}/{version}"


def _changed(base: Struct, *, without: tuple[str, ...] = (), **fields: "Type | Field") -> Struct:
    added = {name: type_ if isinstance(type_, Field) else Field(type_) for name, type_ in fields.items()}
    kept = {name: field for name, field in base.fields.items() if name not in without}
    return replace(base, fields={**kept, **added})


def _inside(base: Struct, *path: str, without: tuple[str, ...] = (), **fields: "Type | Field") -> Struct:
    """Change the struct that stands at a path below `base`, through lists and pointers."""
    if not path:
        return _changed(base, without=without, **fields)
    field = base.fields[path[0]]
    changed = replace(field, type=_through(field.type, path[1:], without, fields))
    return replace(base, fields={**base.fields, path[0]: changed})


def _through(
    type_: Type, path: tuple[str, ...], without: tuple[str, ...], fields: Mapping[str, "Type | Field"]
) -> Type:
    match type_:
        case Pointer(item=item):
            return Pointer(_through(item, path, without, fields))
        case Slice(item=item):
            return Slice(_through(item, path, without, fields))
        case Struct():
            return _inside(type_, *path, without=without, **fields)
        case _:
            raise TypeError(f"no struct at {path}")


def _named(type_: Type, version: str) -> Type:
    """Name the package after the version, as type errors do."""
    match type_:
        case Pointer(item=item):
            return Pointer(_named(item, version))
        case Slice(item=item):
            return Slice(_named(item, version))
        case Struct(package=package):
            fields = {name: replace(field, type=_named(field.type, version)) for name, field in type_.fields.items()}
            return replace(type_, package=version if package == "v1" else package, fields=fields)
        case _:
            return type_


def _item(schema: Struct, *path: str) -> Type:
    found: Type = schema
    for name in path:
        while isinstance(found, Pointer | Slice):
            found = found.item
        assert isinstance(found, Struct)
        found = found.fields[name].type
    return found


_V1BETA3 = _inside(
    _inside(
        _changed(CONFIGURATION, without=("delayCacheUntilActive",)),
        "profiles",
        without=("percentageOfNodesToScore",),
    ),
    "profiles",
    "plugins",
    without=("placementGenerate", "placementScore"),
)
_V1BETA2 = _changed(_V1BETA3, healthzBindAddress=Pointer(STRING), metricsBindAddress=Pointer(STRING))
_V1BETA1 = _inside(_V1BETA2, "profiles", "plugins", without=("multiPoint", "preEnqueue"))
_PLUGIN_SET = _item(_V1BETA1, "profiles", "plugins", "filter")
_V1ALPHA2 = _inside(
    _inside(
        _changed(
            _V1BETA1,
            without=("parallelism",),
            disablePreemption=Pointer(BOOL),
            bindTimeoutSeconds=Pointer(INT64),
        ),
        "profiles",
        "plugins",
        without=("postFilter",),
        unreserve=_PLUGIN_SET,
    ),
    "leaderElection",
    lockObjectName=STRING,
    lockObjectNamespace=STRING,
)
_V1ALPHA1 = _changed(
    _V1ALPHA2,
    without=("profiles", "extenders"),
    schedulerName=Pointer(STRING),
    algorithmSource=struct(
        "SchedulerAlgorithmSource",
        provider=Pointer(STRING),
        policy=Pointer(
            struct(
                "SchedulerPolicySource",
                file=Pointer(struct("SchedulerPolicyFileSource", path=STRING)),
                configMap=Pointer(struct("SchedulerPolicyConfigMapSource", namespace=STRING, name=STRING)),
            )
        ),
    ),
    hardPodAffinitySymmetricWeight=Pointer(INT32),
    plugins=_through(_item(_V1ALPHA2, "profiles", "plugins"), (), ("preScore",), {"postFilter": _PLUGIN_SET}),
    pluginConfig=_item(_V1ALPHA2, "profiles", "pluginConfig"),
)


def configuration_schema(version: str) -> Struct:
    schema = _named(_SCHEMAS[version], version)
    assert isinstance(schema, Struct)
    return schema


_SCHEMAS = dict(zip(VERSIONS, (_V1ALPHA1, _V1ALPHA2, _V1BETA1, _V1BETA2, _V1BETA3), strict=True))
