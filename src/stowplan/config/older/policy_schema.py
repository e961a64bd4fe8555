"""Schema of Policy files.

Upstream: k8s.io/kube-scheduler/config/v1/types.go of 1.16 to 1.22.
"""

from stowplan.config.schema import (
    BOOL,
    CONFIGURATION,
    GROUP,
    INT32,
    INT64,
    STRING,
    Pointer,
    Slice,
    Struct,
    kind,
    struct,
    told,
)

POLICY_KIND = "Policy"
API_VERSIONS = ("v1", f"{GROUP}/v1")

_PREDICATE_ARGUMENT = struct(
    "PredicateArgument",
    serviceAffinity=told(
        Pointer(struct("ServiceAffinity", labels=told(Slice(STRING), "Keys of the labels."))),
        "Pods of one service run on nodes with equal values of these labels.",
    ),
    labelsPresence=told(
        Pointer(
            struct(
                "LabelsPresence",
                labels=told(Slice(STRING), "Keys of the labels."),
                presence=told(BOOL, "Whether nodes must have them, or must not."),
            )
        ),
        "Nodes must have labels, or must not, with whatever value.",
    ),
)
_PREDICATE = struct(
    "PredicatePolicy",
    name=told(STRING, "A predicate of these releases, or any name with an argument."),
    argument=told(Pointer(_PREDICATE_ARGUMENT), "What a predicate with a custom name requires; exactly one of these."),
)
_RATIO = struct(
    "RequestedToCapacityRatioArguments",
    shape=told(
        Slice(
            struct(
                "UtilizationShapePoint",
                utilization=told(INT32, "Percent of the resource in use.", least=0, most=100),
                score=told(INT32, "The score there.", least=0, most=10),
            )
        ),
        "Points of a line.",
    ),
    resources=told(
        Slice(struct("ResourceSpec", name=told(STRING, "A resource."), weight=told(INT64, "What it counts."))),
        "Resources that count.",
    ),
)
_PRIORITY_ARGUMENT = struct(
    "PriorityArgument",
    serviceAntiAffinity=told(
        Pointer(struct("ServiceAntiAffinity", label=told(STRING, "Key of the label."))),
        "Spread the pods of a service over the values of a label.",
    ),
    labelPreference=told(
        Pointer(
            struct(
                "LabelPreference",
                label=told(STRING, "Key of the label."),
                presence=told(BOOL, "Whether nodes are better with it, or without."),
            )
        ),
        "Prefer nodes that have a label, or that do not.",
    ),
    requestedToCapacityRatioArguments=told(Pointer(_RATIO), "Prefer nodes by how full they would be."),
)
_PRIORITY = struct(
    "PriorityPolicy",
    name=told(STRING, "A priority of these releases, or any name with an argument."),
    weight=told(INT64, "Multiplier of its score.", least=1),
    argument=told(Pointer(_PRIORITY_ARGUMENT), "What a priority with a custom name prefers; exactly one of these."),
)


def _extender() -> Struct:
    """The current extender, except for a field's name and another one's unit."""
    today = CONFIGURATION.fields["extenders"].type
    assert isinstance(today, Slice)
    assert isinstance(today.item, Struct)
    fields = {("enableHttps" if name == "enableHTTPS" else name): field for name, field in today.item.fields.items()}
    timeout = told(INT64, "How long an answer may take, in nanoseconds.", default="5000000000")
    return Struct("LegacyExtender", fields={**fields, "httpTimeout": timeout})


POLICY = kind(
    POLICY_KIND,
    predicates=told(Slice(_PREDICATE), "Which nodes pods can run on; absent: those of the default provider."),
    priorities=told(Slice(_PRIORITY), "Which nodes are better; absent: those of the default provider."),
    extenders=told(Slice(_extender()), "HTTP servers that are called as well."),
    hardPodAffinitySymmetricWeight=told(
        INT32, "What required affinities of pods that run count in the score of others.", least=0, most=100
    ),
    alwaysCheckAllPredicates=told(BOOL, "Check the other predicates of a node, too, when one has failed."),
)
