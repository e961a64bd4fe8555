"""The shape of a KubeSchedulerConfiguration file, as the reference's Go types define it.

Decoding errors name Go structs, fields and types ("cannot unmarshal string into Go struct field
KubeSchedulerConfiguration.parallelism of type int32"), and the written configuration leaves out exactly the fields
that carry Go's `omitempty`. Both follow from one table: the structs below, one line per
field. The structs of a plugin's arguments stand in the plugin's declaration.

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


def named_string(go: str) -> Scalar:
    return Scalar("string", go)


def always(type_: Type) -> Field:
    return Field(type_, always=True)


def struct(name: str, package: str = "v1", /, **fields: "Type | Field") -> Struct:
    table = {key: value if isinstance(value, Field) else Field(value) for key, value in fields.items()}
    return Struct(name, package, table)


def kind(name: str, **fields: "Type | Field") -> Struct:
    """Make a struct that is an object of its own, with apiVersion and kind."""
    header = Field(STRING, via="TypeMeta")
    return struct(name, kind=header, apiVersion=header, **fields)


def _embed(embedded: Struct) -> dict[str, Field]:
    return {key: replace(value, via=embedded.name) for key, value in embedded.fields.items()}


# --- the configuration itself

_PLUGIN = struct("Plugin", name=always(STRING), weight=Pointer(INT32))
_PLUGIN_SET = struct("PluginSet", enabled=Slice(_PLUGIN), disabled=Slice(_PLUGIN))
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
_PLUGINS = struct("Plugins", **dict.fromkeys(POINTS, always(_PLUGIN_SET)))
_PLUGIN_CONFIG = struct("PluginConfig", name=always(STRING), args=Raw())
_PROFILE = struct(
    "KubeSchedulerProfile",
    schedulerName=Pointer(STRING),
    percentageOfNodesToScore=Pointer(INT32),
    plugins=Pointer(_PLUGINS),
    pluginConfig=Slice(_PLUGIN_CONFIG),
)
_LEADER_ELECTION = struct(
    "LeaderElectionConfiguration",
    "v1alpha1",
    leaderElect=always(Pointer(BOOL)),
    leaseDuration=always(DURATION),
    renewDeadline=always(DURATION),
    retryPeriod=always(DURATION),
    resourceLock=always(STRING),
    resourceName=always(STRING),
    resourceNamespace=always(STRING),
)
_CLIENT_CONNECTION = struct(
    "ClientConnectionConfiguration",
    "v1alpha1",
    kubeconfig=always(STRING),
    acceptContentTypes=always(STRING),
    contentType=always(STRING),
    qps=always(FLOAT32),
    burst=always(INT32),
)
_DEBUGGING = struct(
    "DebuggingConfiguration", "v1alpha1", enableProfiling=Pointer(BOOL), enableContentionProfiling=Pointer(BOOL)
)
_TLS_CONFIG = struct(
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
_MANAGED_RESOURCE = struct("ExtenderManagedResource", name=always(STRING), ignoredByScheduler=BOOL)
_EXTENDER = struct(
    "Extender",
    urlPrefix=always(STRING),
    filterVerb=STRING,
    preemptVerb=STRING,
    prioritizeVerb=STRING,
    weight=INT64,
    bindVerb=STRING,
    enableHTTPS=BOOL,
    tlsConfig=Pointer(_TLS_CONFIG),
    httpTimeout=always(DURATION),
    nodeCacheCapable=BOOL,
    managedResources=Slice(_MANAGED_RESOURCE),
    ignorable=BOOL,
)
CONFIGURATION = kind(
    CONFIGURATION_KIND,
    parallelism=Pointer(INT32),
    leaderElection=always(_LEADER_ELECTION),
    clientConnection=always(_CLIENT_CONNECTION),
    **_embed(_DEBUGGING),
    percentageOfNodesToScore=Pointer(INT32),
    podInitialBackoffSeconds=Pointer(INT64),
    podMaxBackoffSeconds=Pointer(INT64),
    profiles=Slice(_PROFILE),
    extenders=Slice(_EXTENDER),
    delayCacheUntilActive=BOOL,
)
