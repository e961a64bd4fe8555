"""Schemas of older KubeSchedulerConfiguration versions, as differences from the next version.

Upstream: k8s.io/kube-scheduler/config/{v1alpha1,v1alpha2,v1beta1,v1beta2,v1beta3} of the releases 1.16 to 1.28.
"""

from dataclasses import replace

from stowplan.kube.config.schema import (
    BOOL,
    CONFIGURATION,
    GROUP,
    INT32,
    INT64,
    STRING,
    Pointer,
    Slice,
    Struct,
    Type,
    changed,
    documented,
    inside,
    kind,
    struct,
    through,
)

#: Oldest first.
VERSIONS = ("v1alpha1", "v1alpha2", "v1beta1", "v1beta2", "v1beta3")


def api_version(version: str) -> str:
    return f"{GROUP}/{version}"


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


_V1BETA3 = inside(
    inside(
        changed(CONFIGURATION, without=("delayCacheUntilActive",)),
        "profiles",
        without=("percentageOfNodesToScore",),
    ),
    "profiles",
    "plugins",
    without=("placementGenerate", "placementScore", "podGroupPostFilter"),
)
_PORTS = "Today both are on the secure port: --secure-port and --bind-address."
_V1BETA2 = changed(
    _V1BETA3,
    healthzBindAddress=documented(Pointer(STRING), f"Where health was served, without TLS. {_PORTS}"),
    metricsBindAddress=documented(Pointer(STRING), f"Where metrics were served, without TLS. {_PORTS}"),
)
_V1BETA1 = inside(_V1BETA2, "profiles", "plugins", without=("multiPoint", "preEnqueue"))
_PLUGIN_SET = _item(_V1BETA1, "profiles", "plugins", "filter")
_V1ALPHA2 = inside(
    inside(
        changed(
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
_V1ALPHA1 = changed(
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
    plugins=through(_item(_V1ALPHA2, "profiles", "plugins"), (), ("preScore",), {"postFilter": _POST_FILTER}),
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


# Schema of Policy files.
#
# Upstream: k8s.io/kube-scheduler/config/v1/types.go of 1.16 to 1.22.

POLICY_KIND = "Policy"
API_VERSIONS = ("v1", f"{GROUP}/v1")

_PREDICATE_ARGUMENT = struct(
    "PredicateArgument",
    serviceAffinity=documented(
        Pointer(struct("ServiceAffinity", labels=documented(Slice(STRING), "Keys of the labels."))),
        "Pods of one service run on nodes with equal values of these labels.",
    ),
    labelsPresence=documented(
        Pointer(
            struct(
                "LabelsPresence",
                labels=documented(Slice(STRING), "Keys of the labels."),
                presence=documented(BOOL, "Whether nodes must have them, or must not."),
            )
        ),
        "Nodes must have labels, or must not, with whatever value.",
    ),
)
_PREDICATE = struct(
    "PredicatePolicy",
    name=documented(STRING, "A predicate of these releases, or any name with an argument."),
    argument=documented(
        Pointer(_PREDICATE_ARGUMENT), "What a predicate with a custom name requires; exactly one of these."
    ),
)
_RATIO = struct(
    "RequestedToCapacityRatioArguments",
    shape=documented(
        Slice(
            struct(
                "UtilizationShapePoint",
                utilization=documented(INT32, "Percent of the resource in use.", least=0, most=100),
                score=documented(INT32, "The score there.", least=0, most=10),
            )
        ),
        "Points of a line.",
    ),
    resources=documented(
        Slice(
            struct("ResourceSpec", name=documented(STRING, "A resource."), weight=documented(INT64, "What it counts."))
        ),
        "Resources that count.",
    ),
)
_PRIORITY_ARGUMENT = struct(
    "PriorityArgument",
    serviceAntiAffinity=documented(
        Pointer(struct("ServiceAntiAffinity", label=documented(STRING, "Key of the label."))),
        "Spread the pods of a service over the values of a label.",
    ),
    labelPreference=documented(
        Pointer(
            struct(
                "LabelPreference",
                label=documented(STRING, "Key of the label."),
                presence=documented(BOOL, "Whether nodes are better with it, or without."),
            )
        ),
        "Prefer nodes that have a label, or that do not.",
    ),
    requestedToCapacityRatioArguments=documented(Pointer(_RATIO), "Prefer nodes by how full they would be."),
)
_PRIORITY = struct(
    "PriorityPolicy",
    name=documented(STRING, "A priority of these releases, or any name with an argument."),
    weight=documented(INT64, "Multiplier of its score.", least=1),
    argument=documented(
        Pointer(_PRIORITY_ARGUMENT), "What a priority with a custom name prefers; exactly one of these."
    ),
)


def _extender() -> Struct:
    """The current extender, except for a field's name and another one's unit."""
    today = CONFIGURATION.fields["extenders"].type
    assert isinstance(today, Slice)
    assert isinstance(today.item, Struct)
    fields = {("enableHttps" if name == "enableHTTPS" else name): field for name, field in today.item.fields.items()}
    timeout = documented(INT64, "How long an answer may take, in nanoseconds.", default="5000000000")
    return Struct("LegacyExtender", fields={**fields, "httpTimeout": timeout})


POLICY = kind(
    POLICY_KIND,
    predicates=documented(Slice(_PREDICATE), "Which nodes pods can run on; absent: those of the default provider."),
    priorities=documented(Slice(_PRIORITY), "Which nodes are better; absent: those of the default provider."),
    extenders=documented(Slice(_extender()), "HTTP servers that are called as well."),
    hardPodAffinitySymmetricWeight=documented(
        INT32, "What required affinities of pods that run count in the score of others.", least=0, most=100
    ),
    alwaysCheckAllPredicates=documented(BOOL, "Check the other predicates of a node, too, when one has failed."),
)
