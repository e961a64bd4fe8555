"""Schema of Policy files.

Upstream: k8s.io/kube-scheduler/config/v1/types.go of 1.16 to 1.22.
"""

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
    documented,
    kind,
    struct,
)

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
