"""Schemas of older KubeSchedulerConfiguration versions, as differences from the next version.

Upstream: k8s.io/kube-scheduler/config/{v1alpha1,v1alpha2,v1beta1,v1beta2,v1beta3} of the releases 1.16 to 1.28.
"""

from collections.abc import Mapping
from dataclasses import replace

from stowplan.kube.config.schema import (
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
    documented,
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
    """Change the struct at a path below `base`, through lists and pointers."""
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
    """Name the package after the version, as in type errors."""
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
_PORTS = "Today both are on the secure port: --secure-port and --bind-address."
_V1BETA2 = _changed(
    _V1BETA3,
    healthzBindAddress=documented(Pointer(STRING), f"Where health was served, without TLS. {_PORTS}"),
    metricsBindAddress=documented(Pointer(STRING), f"Where metrics were served, without TLS. {_PORTS}"),
)
_V1BETA1 = _inside(_V1BETA2, "profiles", "plugins", without=("multiPoint", "preEnqueue"))
_PLUGIN_SET = _item(_V1BETA1, "profiles", "plugins", "filter")
_V1ALPHA2 = _inside(
    _inside(
        _changed(
            _V1BETA1,
            without=("parallelism",),
            disablePreemption=documented(
                Pointer(BOOL), "Disables preemption. Now: disable DefaultPreemption at postFilter."
            ),
            bindTimeoutSeconds=documented(
                Pointer(INT64), "How long a pod waits for its volumes. Today: an argument of VolumeBinding."
            ),
        ),
        "profiles",
        "plugins",
        without=("postFilter",),
        unreserve=documented(_PLUGIN_SET, "Undo reserve. Today the plugins of reserve do both."),
    ),
    "leaderElection",
    lockObjectName=documented(STRING, "Name of the lock. Today: resourceName."),
    lockObjectNamespace=documented(STRING, "Namespace of the lock. Today: resourceNamespace."),
)
_POST_FILTER = documented(_PLUGIN_SET, "Once for a pod, before nodes are scored. Today: preScore.")
_ALGORITHM_SOURCE = struct(
    "SchedulerAlgorithmSource",
    provider=documented(
        Pointer(STRING), "A set of plugins with a name.", choices=("DefaultProvider", "ClusterAutoscalerProvider")
    ),
    policy=documented(
        Pointer(
            struct(
                "SchedulerPolicySource",
                file=documented(
                    Pointer(struct("SchedulerPolicyFileSource", path=documented(STRING, "The file."))),
                    "A policy in a file.",
                ),
                configMap=documented(
                    Pointer(
                        struct(
                            "SchedulerPolicyConfigMapSource",
                            namespace=documented(STRING, "Namespace of the ConfigMap."),
                            name=documented(STRING, "Name of the ConfigMap."),
                        )
                    ),
                    "A policy in the key policy.cfg of a ConfigMap.",
                ),
            )
        ),
        "Predicates and priorities instead of plugins.",
    ),
)
_V1ALPHA1 = _changed(
    _V1ALPHA2,
    without=("profiles", "extenders"),
    schedulerName=documented(Pointer(STRING), "Pods with this spec.schedulerName. Today: profiles[].schedulerName."),
    algorithmSource=documented(_ALGORITHM_SOURCE, "Where the plugins come from. Today: profiles[].plugins."),
    hardPodAffinitySymmetricWeight=documented(
        Pointer(INT32),
        "What required affinities of pods that run count. Today: hardPodAffinityWeight of InterPodAffinityArgs.",
        least=0,
        most=100,
    ),
    plugins=_through(_item(_V1ALPHA2, "profiles", "plugins"), (), ("preScore",), {"postFilter": _POST_FILTER}),
    pluginConfig=_item(_V1ALPHA2, "profiles", "pluginConfig"),
)


def configuration_schema(version: str) -> Struct:
    schema = _named(_SCHEMAS[version], version)
    assert isinstance(schema, Struct)
    return schema


_SCHEMAS = dict(zip(VERSIONS, (_V1ALPHA1, _V1ALPHA2, _V1BETA1, _V1BETA2, _V1BETA3), strict=True))


#: Kinds of arguments in v1beta1 and all later versions.
OLDER_ARGS = frozenset(
    (
        "DefaultPreemptionArgs",
        "InterPodAffinityArgs",
        "NodeAffinityArgs",
        "NodeResourcesBalancedAllocationArgs",
        "NodeResourcesFitArgs",
        "PodTopologySpreadArgs",
        "VolumeBindingArgs",
    )
)
