"""The shape of a KubeSchedulerConfiguration file, as the reference's Go types define it.

Decoding errors name Go structs, fields and types ("cannot unmarshal string into Go struct field
KubeSchedulerConfiguration.parallelism of type int32"), and the written configuration leaves out exactly the fields
that carry Go's `omitempty`. Both follow from one table: the structs below, one line a field.

A field is left out of the output when it is empty, unless it is wrapped in `Always`. A `Pointer` may be unset;
everything else has a zero value. `via` is the Go name of the embedded struct that a field comes from.

Upstream: k8s.io/kube-scheduler/config/v1, k8s.io/component-base/config/v1alpha1, k8s.io/api/core/v1.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

GROUP = "kubescheduler.config.k8s.io"
API_VERSION = f"{GROUP}/v1"
CONFIGURATION_KIND = "KubeSchedulerConfiguration"


@dataclass(frozen=True, slots=True)
class Scalar:
    """A value that JSON writes as one literal; `kind` says how it is read, `go` how messages name its type."""

    kind: str
    go: str


@dataclass(frozen=True, slots=True)
class Raw:
    """Left as it is: decoded later, by whoever knows its type."""


@dataclass(frozen=True, slots=True)
class StringMap:
    go: str = "map[string]string"


@dataclass(frozen=True, slots=True)
class Pointer:
    item: "Type"


@dataclass(frozen=True, slots=True)
class Slice:
    item: "Type"


@dataclass(frozen=True, slots=True)
class Field:
    type: "Type"
    always: bool = False
    via: str = ""


@dataclass(frozen=True, slots=True)
class Struct:
    name: str
    package: str = "v1"
    fields: Mapping[str, Field] = field(default_factory=dict)


Type = Scalar | Raw | StringMap | Pointer | Slice | Struct


def go_type(type_: Type) -> str:
    """Name a type as Go's reflection does."""
    match type_:
        case Struct(name=name, package=package):
            return f"{package}.{name}"
        case Slice(item=item):
            return f"[]{go_type(item)}"
        case Pointer(item=item):
            return go_type(item)
        case Scalar(go=go) | StringMap(go=go):
            return go
        case Raw():
            return "runtime.RawExtension"


INT32 = Scalar("int32", "int32")
INT64 = Scalar("int64", "int64")
FLOAT32 = Scalar("float32", "float32")
BOOL = Scalar("bool", "bool")
STRING = Scalar("string", "string")
BYTES = Scalar("bytes", "[]uint8")
DURATION = Scalar("duration", "v1.Duration")


def _named_string(go: str) -> Scalar:
    return Scalar("string", go)


def _always(type_: Type) -> Field:
    return Field(type_, always=True)


def _struct(name: str, package: str = "v1", /, **fields: "Type | Field") -> Struct:
    table = {key: value if isinstance(value, Field) else Field(value) for key, value in fields.items()}
    return Struct(name, package, table)


def _kind(name: str, **fields: "Type | Field") -> Struct:
    """Make a struct that is an object of its own, with apiVersion and kind."""
    header = Field(STRING, via="TypeMeta")
    return _struct(name, kind=header, apiVersion=header, **fields)


def _embed(struct: Struct) -> dict[str, Field]:
    return {key: replace(value, via=struct.name) for key, value in struct.fields.items()}


# --- k8s.io/api/core/v1: the parts that plugin arguments embed

_NODE_SELECTOR_REQUIREMENT = _struct(
    "NodeSelectorRequirement",
    key=_always(STRING),
    operator=_always(_named_string("v1.NodeSelectorOperator")),
    values=Slice(STRING),
)
_NODE_SELECTOR_TERM = _struct(
    "NodeSelectorTerm",
    matchExpressions=Slice(_NODE_SELECTOR_REQUIREMENT),
    matchFields=Slice(_NODE_SELECTOR_REQUIREMENT),
)
_NODE_SELECTOR = _struct("NodeSelector", nodeSelectorTerms=_always(Slice(_NODE_SELECTOR_TERM)))
_PREFERRED_SCHEDULING_TERM = _struct(
    "PreferredSchedulingTerm", weight=_always(INT32), preference=_always(_NODE_SELECTOR_TERM)
)
NODE_AFFINITY = _struct(
    "NodeAffinity",
    requiredDuringSchedulingIgnoredDuringExecution=Pointer(_NODE_SELECTOR),
    preferredDuringSchedulingIgnoredDuringExecution=Slice(_PREFERRED_SCHEDULING_TERM),
)
_LABEL_SELECTOR_REQUIREMENT = _struct(
    "LabelSelectorRequirement",
    key=_always(STRING),
    operator=_always(_named_string("v1.LabelSelectorOperator")),
    values=Slice(STRING),
)
_LABEL_SELECTOR = _struct("LabelSelector", matchLabels=StringMap(), matchExpressions=Slice(_LABEL_SELECTOR_REQUIREMENT))
_INCLUSION_POLICY = _named_string("v1.NodeInclusionPolicy")
TOPOLOGY_SPREAD_CONSTRAINT = _struct(
    "TopologySpreadConstraint",
    maxSkew=_always(INT32),
    topologyKey=_always(STRING),
    whenUnsatisfiable=_always(_named_string("v1.UnsatisfiableConstraintAction")),
    labelSelector=Pointer(_LABEL_SELECTOR),
    minDomains=Pointer(INT32),
    nodeAffinityPolicy=Pointer(_INCLUSION_POLICY),
    nodeTaintsPolicy=Pointer(_INCLUSION_POLICY),
    matchLabelKeys=Slice(STRING),
)

# --- plugin arguments

_RESOURCE_SPEC = _struct("ResourceSpec", name=_always(STRING), weight=INT64)
_SHAPE_POINT = _struct("UtilizationShapePoint", utilization=_always(INT32), score=_always(INT32))
_CAPACITY_RATIO = _struct("RequestedToCapacityRatioParam", shape=Slice(_SHAPE_POINT))
_SCORING_STRATEGY = _struct(
    "ScoringStrategy",
    type=_named_string("v1.ScoringStrategyType"),
    resources=Slice(_RESOURCE_SPEC),
    requestedToCapacityRatio=Pointer(_CAPACITY_RATIO),
)

ARGS_SCHEMAS: Mapping[str, Struct] = {
    struct.name: struct
    for struct in (
        _kind(
            "DefaultPreemptionArgs",
            minCandidateNodesPercentage=Pointer(INT32),
            minCandidateNodesAbsolute=Pointer(INT32),
        ),
        _kind(
            "DynamicResourcesArgs", filterTimeout=_always(Pointer(DURATION)), bindingTimeout=_always(Pointer(DURATION))
        ),
        _kind(
            "InterPodAffinityArgs",
            hardPodAffinityWeight=Pointer(INT32),
            ignorePreferredTermsOfExistingPods=_always(BOOL),
        ),
        _kind("NodeAffinityArgs", addedAffinity=Pointer(NODE_AFFINITY)),
        _kind("NodeResourcesBalancedAllocationArgs", resources=Slice(_RESOURCE_SPEC)),
        _kind(
            "NodeResourcesFitArgs",
            ignoredResources=Slice(STRING),
            ignoredResourceGroups=Slice(STRING),
            scoringStrategy=Pointer(_SCORING_STRATEGY),
        ),
        _kind(
            "PodTopologySpreadArgs",
            defaultConstraints=Slice(TOPOLOGY_SPREAD_CONSTRAINT),
            defaultingType=_named_string("v1.PodTopologySpreadConstraintsDefaulting"),
        ),
        _kind("VolumeBindingArgs", bindTimeoutSeconds=Pointer(INT64), shape=Slice(_SHAPE_POINT)),
    )
}

# --- the configuration itself

_PLUGIN = _struct("Plugin", name=_always(STRING), weight=Pointer(INT32))
_PLUGIN_SET = _struct("PluginSet", enabled=Slice(_PLUGIN), disabled=Slice(_PLUGIN))
POINTS = (
    "preEnqueue",
    "queueSort",
    "preFilter",
    "filter",
    "postFilter",
    "preScore",
    "score",
    "reserve",
    "permit",
    "preBind",
    "bind",
    "postBind",
    "multiPoint",
    "placementGenerate",
    "placementScore",
)
_PLUGINS = _struct("Plugins", **dict.fromkeys(POINTS, _always(_PLUGIN_SET)))
_PLUGIN_CONFIG = _struct("PluginConfig", name=_always(STRING), args=Raw())
_PROFILE = _struct(
    "KubeSchedulerProfile",
    schedulerName=Pointer(STRING),
    percentageOfNodesToScore=Pointer(INT32),
    plugins=Pointer(_PLUGINS),
    pluginConfig=Slice(_PLUGIN_CONFIG),
)
_LEADER_ELECTION = _struct(
    "LeaderElectionConfiguration",
    "v1alpha1",
    leaderElect=_always(Pointer(BOOL)),
    leaseDuration=_always(DURATION),
    renewDeadline=_always(DURATION),
    retryPeriod=_always(DURATION),
    resourceLock=_always(STRING),
    resourceName=_always(STRING),
    resourceNamespace=_always(STRING),
)
_CLIENT_CONNECTION = _struct(
    "ClientConnectionConfiguration",
    "v1alpha1",
    kubeconfig=_always(STRING),
    acceptContentTypes=_always(STRING),
    contentType=_always(STRING),
    qps=_always(FLOAT32),
    burst=_always(INT32),
)
_DEBUGGING = _struct(
    "DebuggingConfiguration", "v1alpha1", enableProfiling=Pointer(BOOL), enableContentionProfiling=Pointer(BOOL)
)
_TLS_CONFIG = _struct(
    "ExtenderTLSConfig",
    insecure=BOOL,
    serverName=STRING,
    certFile=STRING,
    keyFile=STRING,
    caFile=STRING,
    certData=BYTES,
    keyData=BYTES,
    caData=BYTES,
)
_MANAGED_RESOURCE = _struct("ExtenderManagedResource", name=_always(STRING), ignoredByScheduler=BOOL)
_EXTENDER = _struct(
    "Extender",
    urlPrefix=_always(STRING),
    filterVerb=STRING,
    preemptVerb=STRING,
    prioritizeVerb=STRING,
    weight=INT64,
    bindVerb=STRING,
    enableHTTPS=BOOL,
    tlsConfig=Pointer(_TLS_CONFIG),
    httpTimeout=_always(DURATION),
    nodeCacheCapable=BOOL,
    managedResources=Slice(_MANAGED_RESOURCE),
    ignorable=BOOL,
)
CONFIGURATION = _kind(
    CONFIGURATION_KIND,
    parallelism=Pointer(INT32),
    leaderElection=_always(_LEADER_ELECTION),
    clientConnection=_always(_CLIENT_CONNECTION),
    **_embed(_DEBUGGING),
    percentageOfNodesToScore=Pointer(INT32),
    podInitialBackoffSeconds=Pointer(INT64),
    podMaxBackoffSeconds=Pointer(INT64),
    profiles=Slice(_PROFILE),
    extenders=Slice(_EXTENDER),
    delayCacheUntilActive=BOOL,
)
