"""PodTopologySpread's declaration and arguments."""

from collections.abc import Iterator
from typing import ClassVar

from msgspec.structs import replace

from stowplan.kube.api.field_errors import child, not_supported
from stowplan.kube.api.types import (
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
    TopologySpreadConstraint,
)
from stowplan.kube.config.config_errors import duplicate, forbidden, invalid, required
from stowplan.kube.config.declaration import Args, EnabledByDefault, Kinds, PluginDeclaration
from stowplan.kube.config.features import FeatureGates
from stowplan.kube.config.schema import (
    INT32,
    STRING,
    Pointer,
    Slice,
    StringMap,
    Struct,
    documented,
    kind,
    named_string,
    not_omitted,
    struct,
)
from stowplan.scheduler.in_tree.common.args import label_name_errors

SYSTEM_DEFAULTING = "System"
LIST_DEFAULTING = "List"

_ACTIONS = ("DoNotSchedule", "ScheduleAnyway")

#: Objects that determine the default selector of a pod without constraints.
_OWNERS = (Service, ReplicationController, ReplicaSet, StatefulSet)

_REQUIREMENT = struct(
    "LabelSelectorRequirement",
    key=documented(not_omitted(STRING), "A label's key."),
    operator=documented(
        not_omitted(named_string("v1.LabelSelectorOperator")),
        "How the label's value has to do with `values`.",
        choices=("In", "NotIn", "Exists", "DoesNotExist"),
    ),
    values=documented(Slice(STRING), "Values, as the operator has it."),
)
_LABEL_SELECTOR = struct(
    "LabelSelector",
    matchLabels=documented(StringMap(), "Labels and their values; all must hold."),
    matchExpressions=documented(Slice(_REQUIREMENT), "Requirements of labels; all must hold."),
)
_POLICIES = ("Honor", "Ignore")
_INCLUSION_POLICY = named_string("v1.NodeInclusionPolicy")
_CONSTRAINT = struct(
    "TopologySpreadConstraint",
    maxSkew=documented(
        not_omitted(INT32), "How many more pods one domain may have than the one with the fewest.", least=1
    ),
    topologyKey=documented(
        not_omitted(STRING), "Label whose values are the domains, such as topology.kubernetes.io/zone."
    ),
    whenUnsatisfiable=documented(
        not_omitted(named_string("v1.UnsatisfiableConstraintAction")),
        "Whether such nodes are refused or only worse.",
        choices=_ACTIONS,
    ),
    labelSelector=documented(Pointer(_LABEL_SELECTOR), "Must not be given: it follows from the pod's workload."),
    minDomains=documented(Pointer(INT32), "With fewer domains, the fewest pods count as 0."),
    nodeAffinityPolicy=documented(
        Pointer(_INCLUSION_POLICY), "Whether nodes that the pod's affinity rules out count.", choices=_POLICIES
    ),
    nodeTaintsPolicy=documented(
        Pointer(_INCLUSION_POLICY), "Whether nodes with taints that the pod does not tolerate count.", choices=_POLICIES
    ),
    matchLabelKeys=documented(Slice(STRING), "Only pods with the pod's own values of these labels count."),
)


class PodTopologySpreadArgs(Args, frozen=True):
    schema: ClassVar[Struct] = kind(
        "PodTopologySpreadArgs",
        defaultConstraints=documented(
            Slice(_CONSTRAINT), "For pods without constraints of their own that belong to a workload or a service."
        ),
        defaultingType=documented(
            named_string("v1.PodTopologySpreadConstraintsDefaulting"),
            "System: over hosts with a skew of 3, over zones with a skew of 5, preferred. List: defaultConstraints.",
            choices=(SYSTEM_DEFAULTING, LIST_DEFAULTING),
        ),
    )

    default_constraints: tuple[TopologySpreadConstraint, ...] = ()
    defaulting_type: str = ""

    def completed(self, features: FeatureGates) -> "PodTopologySpreadArgs":
        return self if self.defaulting_type else replace(self, defaulting_type=SYSTEM_DEFAULTING)

    def validate(self, path: str, features: FeatureGates) -> Iterator[str]:
        yield from self._defaulting_type_errors(child(path, "defaultingType"))
        seen: set[tuple[str, str]] = set()
        for i, constraint in enumerate(self.default_constraints):
            constraint_path = f"{child(path, 'defaultConstraints')}[{i}]"
            yield from _constraint_errors(constraint_path, constraint)
            identity = (constraint.topology_key, constraint.when_unsatisfiable)
            if identity in seen:
                yield duplicate(constraint_path, f"{{{', '.join(identity)}}}")
            seen.add(identity)

    def _defaulting_type_errors(self, path: str) -> Iterator[str]:
        if self.defaulting_type not in {SYSTEM_DEFAULTING, LIST_DEFAULTING}:
            yield not_supported(path, self.defaulting_type, (SYSTEM_DEFAULTING, LIST_DEFAULTING))
        elif self.defaulting_type == SYSTEM_DEFAULTING and self.default_constraints:
            yield invalid(path, self.defaulting_type, "when .defaultConstraints are not empty")


def _constraint_errors(path: str, constraint: TopologySpreadConstraint) -> Iterator[str]:
    if constraint.max_skew <= 0:
        yield invalid(child(path, "maxSkew"), constraint.max_skew, "not in valid range (0, inf)")
    if constraint.topology_key:
        yield from label_name_errors(child(path, "topologyKey"), constraint.topology_key)
    else:
        yield required(child(path, "topologyKey"), "can not be empty")
    action_path = child(path, "whenUnsatisfiable")
    if not constraint.when_unsatisfiable:
        yield required(action_path, "can not be empty")
    elif constraint.when_unsatisfiable not in _ACTIONS:
        yield not_supported(action_path, constraint.when_unsatisfiable, _ACTIONS)
    if constraint.label_selector is not None:
        reason = "constraint must not define a selector, as they deduced for each pod"
        yield forbidden(child(path, "labelSelector"), reason)


def _owners_read(args: PodTopologySpreadArgs) -> Kinds:
    """Only default constraints need the owners of a pod."""
    by_default = args.defaulting_type != LIST_DEFAULTING or args.default_constraints
    return _OWNERS if by_default else ()


_BY_DEFAULT = "spreads the pods of a workload by default; its scores are not exactly the same"

DECLARATION = PluginDeclaration(
    name="PodTopologySpread",
    points=frozenset({"preFilter", "filter", "preScore", "score"}),
    default=EnabledByDefault(order=130, weight=2),
    args_type=PodTopologySpreadArgs,
    reads=_owners_read,
    replaces={
        "SelectorSpread": _BY_DEFAULT,
        "DefaultPodTopologySpread": _BY_DEFAULT,
    },
)
