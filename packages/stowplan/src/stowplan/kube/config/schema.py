"""Schema of KubeSchedulerConfiguration v1, following the reference's Go types.

Decoding errors name Go structs, fields and types ("cannot unmarshal string into Go struct field
KubeSchedulerConfiguration.parallelism of type int32"), and the encoded configuration omits exactly the fields with Go's
`omitempty`. Both follow from the structs below, with one line per field. The structs of a plugin's arguments are in the
plugin's declaration.

A field is omitted from the output if it is empty, unless it is wrapped in `Always`. A `Pointer` may be unset;
everything else has a zero value. `via` is the Go name of the embedded struct that a field comes from.

Upstream: k8s.io/kube-scheduler/config/v1, k8s.io/component-base/config/v1alpha1, k8s.io/api/core/v1.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from stowplan.kube.kubernetes_versions import V1_37, KubernetesVersion

GROUP = "kubescheduler.config.k8s.io"
API_VERSION = f"{GROUP}/v1"
CONFIGURATION_KIND = "KubeSchedulerConfiguration"


@dataclass(frozen=True, slots=True)
class Scalar:
    """A value that is a JSON literal; `kind` determines how it is decoded, `go` is its type in messages."""

    kind: str
    go: str


@dataclass(frozen=True, slots=True)
class Raw:
    """Left undecoded; the owner of the type decodes it later."""


@dataclass(frozen=True, slots=True)
class StringMap:
    go: str = "map[string]string"


@dataclass(frozen=True, slots=True)
class Map:
    """Values of one type by name."""

    item: "Type"


@dataclass(frozen=True, slots=True)
class Pointer:
    item: "Type"


@dataclass(frozen=True, slots=True)
class Slice:
    item: "Type"


@dataclass(frozen=True, slots=True)
class Field:
    type: "Type"
    not_omitted: bool = False
    via: str = ""
    #: Documentation; allowed values; minimum and maximum.
    text: str = ""
    choices: tuple[str, ...] = ()
    least: int | None = None
    most: int | None = None
    #: Its default, if the types do not define it.
    default: str = ""


@dataclass(frozen=True, slots=True)
class Struct:
    name: str
    package: str = "v1"
    fields: Mapping[str, Field] = field(default_factory=dict)


Type = Scalar | Raw | StringMap | Map | Pointer | Slice | Struct


def go_type(type_: Type) -> str:
    """The name of a type in Go's reflection."""
    match type_:
        case Struct(name=name, package=package):
            return f"{package}.{name}"
        case Slice(item=item):
            return f"[]{go_type(item)}"
        case Pointer(item=item):
            return go_type(item)
        case Map(item=item):
            return f"map[string]{go_type(item)}"
        case Scalar(go=go) | StringMap(go=go):
            return go
        case Raw():
            return "runtime.RawExtension"


INT32 = Scalar("int32", "int32")
INT64 = Scalar("int64", "int64")
FLOAT32 = Scalar("float32", "float32")
FLOAT64 = Scalar("float64", "float64")
BOOL = Scalar("bool", "bool")
STRING = Scalar("string", "string")
BYTES = Scalar("bytes", "[]uint8")
DURATION = Scalar("duration", "v1.Duration")
#: Kept as text; numbers become text.
QUANTITY = Scalar("quantity", "resource.Quantity")


def named_string(go: str) -> Scalar:
    return Scalar("string", go)


def not_omitted(type_: Type) -> Field:
    return Field(type_, not_omitted=True)


def documented(type_: "Type | Field", text: str, **more: Any) -> Field:
    """A field with its documentation, for `stowplan config explain` and editors."""
    known = type_ if isinstance(type_, Field) else Field(type_)
    return replace(known, text=text, **more)


def struct(name: str, package: str = "v1", /, **fields: "Type | Field") -> Struct:
    table = {key: value if isinstance(value, Field) else Field(value) for key, value in fields.items()}
    return Struct(name, package, table)


def kind(name: str, **fields: "Type | Field") -> Struct:
    """Make a struct an object of its own, with apiVersion and kind."""
    header = Field(STRING, via="TypeMeta")
    kind_ = replace(header, text="The kind of this object.", choices=(name,))
    return struct(name, kind=kind_, apiVersion=replace(header, text="The version of the kind."), **fields)


def _embed(embedded: Struct) -> dict[str, Field]:
    return {key: replace(value, via=embedded.name) for key, value in embedded.fields.items()}


# --- the configuration itself

_PLUGIN = struct(
    "Plugin",
    name=documented(not_omitted(STRING), "The plugin; in `disabled`, * means all defaults."),
    weight=documented(
        Pointer(INT32),
        "Multiplier of the plugin's score. Applies at score, placementScore and multiPoint; 0 means 1. A plugin "
        "that is named at score needs its weight there: that of multiPoint is ignored then.",
        default="1",
    ),
)
_PLUGIN_SET = struct(
    "PluginSet",
    enabled=documented(
        Slice(_PLUGIN),
        "Plugins to run in addition to the default ones, in this order. A default plugin that is named keeps its "
        "position, with the weight given here.",
    ),
    disabled=documented(Slice(_PLUGIN), "Default plugins to disable; plugins in `enabled` run regardless."),
)
#: Documentation of extension points.
_POINT_TEXTS = {
    "preEnqueue": "Before a pod is queued: may it be tried at all?",
    "queueSort": "Which pod is tried first. Exactly one plugin, the same in all profiles.",
    "preFilter": "Once for a pod, before nodes are looked at: works out what Filter needs, or refuses the pod.",
    "filter": "For each node: tells whether the pod can run there.",
    "postFilter": "When no node is left: make room, as preemption does. The first plugin that succeeds is the last.",
    "preScore": "Once for a pod, before nodes are scored.",
    "score": "How good each node is that is left, 0 to 100; the sum of scores times weights decides.",
    "reserve": "When a node is chosen: note what the pod takes; and undo it, if the pod does not get there.",
    "permit": "Let the pod through to its node, refuse it or make it wait.",
    "preBind": "Preparations before the pod is bound, such as volumes.",
    "bind": "Bind the pod to its node; the first plugin that does ends it. At least one plugin.",
    "postBind": "After the pod was bound.",
    "multiPoint": "Enable or disable plugins at all points that they have; what a single point says wins.",
    "placementGenerate": "For groups of pods: which sets of nodes to consider. At most one plugin.",
    "placementScore": "For groups of pods: how good each set of nodes is.",
    "podGroupPostFilter": "When a group of pods fits nowhere: make room for it. The first plugin that succeeds is the "
    "last. Since Kubernetes 1.37.",
}
POINTS = tuple(_POINT_TEXTS)
#: Points that older versions of Kubernetes do not have.
_POINTS_SINCE = {"podGroupPostFilter": V1_37}


def points_at(version: KubernetesVersion) -> tuple[str, ...]:
    """The extension points of a version of Kubernetes."""
    return tuple(point for point in POINTS if point not in _POINTS_SINCE or version >= _POINTS_SINCE[point])


_PLUGINS = struct(
    "Plugins", **{point: documented(not_omitted(_PLUGIN_SET), text) for point, text in _POINT_TEXTS.items()}
)
_PLUGIN_CONFIG = struct(
    "PluginConfig",
    name=documented(not_omitted(STRING), "The plugin, once in a profile."),
    args=documented(
        Raw(),
        "The plugin's arguments: an object of kind <name>Args; kind may be omitted. stowplan config explain "
        "<name>Args describes it.",
    ),
)
_PROFILE = struct(
    "KubeSchedulerProfile",
    schedulerName=documented(
        Pointer(STRING),
        "Pods with this spec.schedulerName are scheduled by this profile. Must be given with two profiles or more.",
        default="default-scheduler",
    ),
    percentageOfNodesToScore=documented(
        Pointer(INT32), "As the field of this name at the top, for this profile.", least=0, most=100
    ),
    plugins=documented(
        Pointer(_PLUGINS), "Which plugins run at which extension point, in addition to or instead of default ones."
    ),
    pluginConfig=documented(Slice(_PLUGIN_CONFIG), "Arguments of plugins."),
)
_LEADER_ELECTION = struct(
    "LeaderElectionConfiguration",
    "v1alpha1",
    leaderElect=documented(not_omitted(Pointer(BOOL)), "Of several schedulers of this name, let one work."),
    leaseDuration=documented(
        not_omitted(DURATION), "How long others wait for a silent leader; more than renewDeadline."
    ),
    renewDeadline=documented(not_omitted(DURATION), "How long a leader tries to stay one; more than 1.2 retryPeriod."),
    retryPeriod=documented(not_omitted(DURATION), "Time between two tries."),
    resourceLock=documented(not_omitted(STRING), "Kind of the lock.", choices=("leases",)),
    resourceName=documented(not_omitted(STRING), "Name of the lock."),
    resourceNamespace=documented(not_omitted(STRING), "Namespace of the lock."),
)
_CLIENT_CONNECTION = struct(
    "ClientConnectionConfiguration",
    "v1alpha1",
    kubeconfig=documented(not_omitted(STRING), "Kubeconfig of the cluster; empty: the one that the scheduler runs in."),
    acceptContentTypes=documented(
        not_omitted(STRING), "Content types to ask for; ignored here: all responses are JSON."
    ),
    contentType=documented(not_omitted(STRING), "Content type of requests; ignored here: all requests are JSON."),
    qps=documented(not_omitted(FLOAT32), "Requests a second; 0 is the default, below 0 no limit."),
    burst=documented(not_omitted(INT32), "Requests that may go at once; 0 is the default.", least=0),
)
_DEBUGGING = struct(
    "DebuggingConfiguration",
    "v1alpha1",
    enableProfiling=documented(Pointer(BOOL), "Serve profiles under /debug/pprof/."),
    enableContentionProfiling=documented(Pointer(BOOL), "Profile blocking, too; follows enableProfiling."),
)
_TLS_CONFIG = struct(
    "ExtenderTLSConfig",
    insecure=documented(BOOL, "Do not verify the extender's certificate; not together with an authority."),
    serverName=documented(STRING, "Name to find in the extender's certificate; empty: that of urlPrefix."),
    certFile=documented(STRING, "Client certificate, PEM."),
    keyFile=documented(STRING, "Key of the client certificate, PEM."),
    caFile=documented(STRING, "Authorities that the extender's certificate may come from, PEM."),
    certData=documented(BYTES, "As certFile, base64 in place; wins over the file."),
    keyData=documented(BYTES, "As keyFile, base64 in place; wins over the file."),
    caData=documented(BYTES, "As caFile, base64 in place; wins over the file."),
)
_MANAGED_RESOURCE = struct(
    "ExtenderManagedResource",
    name=documented(not_omitted(STRING), "An extended resource, as example.com/gpu."),
    ignoredByScheduler=documented(BOOL, "Leave the resource to the extender: the scheduler does not count it."),
)
_EXTENDER = struct(
    "Extender",
    urlPrefix=documented(not_omitted(STRING), "Where the extender is; verbs are appended."),
    filterVerb=documented(STRING, "Appended to urlPrefix for filter calls; empty: not called."),
    preemptVerb=documented(STRING, "Appended to urlPrefix for preempt calls; empty: not called."),
    prioritizeVerb=documented(STRING, "Appended to urlPrefix for prioritize calls; empty: not called."),
    weight=documented(INT64, "What its scores are multiplied by; above 0 with prioritizeVerb."),
    bindVerb=documented(STRING, "Appended to urlPrefix to let it bind pods; empty: the scheduler binds. One at most."),
    enableHTTPS=documented(BOOL, "Speak HTTPS where urlPrefix does not say."),
    tlsConfig=documented(Pointer(_TLS_CONFIG), "How to trust the extender, and who we are."),
    httpTimeout=documented(not_omitted(DURATION), "How long an answer may take.", default="5s"),
    nodeCacheCapable=documented(BOOL, "It knows the nodes: it is sent names instead of whole nodes."),
    managedResources=documented(
        Slice(_MANAGED_RESOURCE), "Only called for pods that request one of these; empty: for all pods."
    ),
    ignorable=documented(BOOL, "Continue without its answer if it fails."),
)
CONFIGURATION = kind(
    CONFIGURATION_KIND,
    parallelism=documented(
        Pointer(INT32), "Workers for algorithms that look at many nodes; without effect here.", least=1
    ),
    leaderElection=documented(not_omitted(_LEADER_ELECTION), "How one of several schedulers is chosen to work."),
    clientConnection=documented(not_omitted(_CLIENT_CONNECTION), "How to talk to the API server."),
    **_embed(_DEBUGGING),
    percentageOfNodesToScore=documented(
        Pointer(INT32),
        "Once this share of all nodes was found to be good for a pod, no more are looked at. 0: the larger the "
        "cluster, the less (50 % less one for each 125 nodes, 5 % at least), and never less than 100 nodes.",
        least=0,
        most=100,
    ),
    podInitialBackoffSeconds=documented(
        Pointer(INT64),
        "How long a pod waits after its first failed try; twice as long after each one.",
        least=1,
    ),
    podMaxBackoffSeconds=documented(
        Pointer(INT64), "How long it waits at most; podInitialBackoffSeconds or more.", least=1
    ),
    profiles=documented(Slice(_PROFILE), "Schedulers in this process, each with its own name and plugins."),
    extenders=documented(Slice(_EXTENDER), "HTTP servers that are called for pods, in addition to the plugins."),
    delayCacheUntilActive=documented(
        BOOL, "With leader election: watch the cluster only once this scheduler leads, to spare the API server."
    ),
)


# --- versions


def changed(base: Struct, *, without: tuple[str, ...] = (), **fields: "Type | Field") -> Struct:
    """A struct without some of its fields, and with others."""
    added = {name: type_ if isinstance(type_, Field) else Field(type_) for name, type_ in fields.items()}
    kept = {name: field for name, field in base.fields.items() if name not in without}
    return replace(base, fields={**kept, **added})


def inside(base: Struct, *path: str, without: tuple[str, ...] = (), **fields: "Type | Field") -> Struct:
    """Change the struct at a path below `base`, through lists and pointers."""
    if not path:
        return changed(base, without=without, **fields)
    field = base.fields[path[0]]
    its_type = through(field.type, path[1:], without, fields)
    return replace(base, fields={**base.fields, path[0]: replace(field, type=its_type)})


def through(type_: Type, path: tuple[str, ...], without: tuple[str, ...], fields: Mapping[str, "Type | Field"]) -> Type:
    """Change the struct at a path below a list or pointer."""
    match type_:
        case Pointer(item=item):
            return Pointer(through(item, path, without, fields))
        case Slice(item=item):
            return Slice(through(item, path, without, fields))
        case Struct():
            return inside(type_, *path, without=without, **fields)
        case _:
            raise TypeError(f"no struct at {path}")


@cache
def configuration_at(version: KubernetesVersion) -> Struct:
    """The configuration of a version of Kubernetes."""
    known = points_at(version)
    later = tuple(point for point in POINTS if point not in known)
    return inside(CONFIGURATION, "profiles", "plugins", without=later) if later else CONFIGURATION
