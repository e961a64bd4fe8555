"""The shape of a policy file.

Upstream: k8s.io/kube-scheduler/config/v1/types.go of 1.16 to 1.22.
"""

from stowplan.config.schema import BOOL, BYTES, GROUP, INT32, INT64, STRING, Pointer, Slice, kind, struct

POLICY_KIND = "Policy"
API_VERSIONS = ("v1", f"{GROUP}/v1")

_PREDICATE = struct(
    "PredicatePolicy",
    name=STRING,
    argument=Pointer(
        struct(
            "PredicateArgument",
            serviceAffinity=Pointer(struct("ServiceAffinity", labels=Slice(STRING))),
            labelsPresence=Pointer(struct("LabelsPresence", labels=Slice(STRING), presence=BOOL)),
        )
    ),
)
_RATIO = struct(
    "RequestedToCapacityRatioArguments",
    shape=Slice(struct("UtilizationShapePoint", utilization=INT32, score=INT32)),
    resources=Slice(struct("ResourceSpec", name=STRING, weight=INT64)),
)
_PRIORITY = struct(
    "PriorityPolicy",
    name=STRING,
    weight=INT64,
    argument=Pointer(
        struct(
            "PriorityArgument",
            serviceAntiAffinity=Pointer(struct("ServiceAntiAffinity", label=STRING)),
            labelPreference=Pointer(struct("LabelPreference", label=STRING, presence=BOOL)),
            requestedToCapacityRatioArguments=Pointer(_RATIO),
        )
    ),
)
_EXTENDER = struct(
    "LegacyExtender",
    urlPrefix=STRING,
    filterVerb=STRING,
    preemptVerb=STRING,
    prioritizeVerb=STRING,
    weight=INT64,
    bindVerb=STRING,
    enableHttps=BOOL,
    tlsConfig=Pointer(
        struct(
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
    ),
    httpTimeout=INT64,
    nodeCacheCapable=BOOL,
    managedResources=Slice(struct("ExtenderManagedResource", name=STRING, ignoredByScheduler=BOOL)),
    ignorable=BOOL,
)
POLICY = kind(
    POLICY_KIND,
    predicates=Slice(_PREDICATE),
    priorities=Slice(_PRIORITY),
    extenders=Slice(_EXTENDER),
    hardPodAffinitySymmetricWeight=INT32,
    alwaysCheckAllPredicates=BOOL,
)
