"""NodeAffinity's declaration and arguments."""

from collections.abc import Iterator
from typing import ClassVar

from stowplan.kube.api.field_errors import child
from stowplan.kube.api.node_selectors import node_selector_errors, preferred_terms_errors
from stowplan.kube.api.types import NodeAffinity
from stowplan.kube.config.declaration import Args, EnabledByDefault, PluginDeclaration
from stowplan.kube.config.features import FeatureGates
from stowplan.kube.config.schema import (
    INT32,
    STRING,
    Pointer,
    Slice,
    Struct,
    documented,
    kind,
    named_string,
    not_omitted,
    struct,
)

_REQUIREMENT = struct(
    "NodeSelectorRequirement",
    key=documented(not_omitted(STRING), "A label's key; in matchFields, metadata.name."),
    operator=documented(
        not_omitted(named_string("v1.NodeSelectorOperator")),
        "How the label's value has to do with `values`.",
        choices=("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"),
    ),
    values=documented(Slice(STRING), "One value or several, as the operator has it."),
)
_TERM = struct(
    "NodeSelectorTerm",
    matchExpressions=documented(Slice(_REQUIREMENT), "Labels of the node; all must hold."),
    matchFields=documented(Slice(_REQUIREMENT), "Fields of the node; all must hold."),
)
_NODE_SELECTOR = struct(
    "NodeSelector",
    nodeSelectorTerms=documented(not_omitted(Slice(_TERM)), "One of these must hold; none matches no node."),
)
_PREFERRED_TERM = struct(
    "PreferredSchedulingTerm",
    weight=documented(not_omitted(INT32), "What nodes get for which the preference holds; 0 leaves it out."),
    preference=documented(not_omitted(_TERM), "Which nodes are preferred."),
)
_NODE_AFFINITY = struct(
    "NodeAffinity",
    requiredDuringSchedulingIgnoredDuringExecution=documented(Pointer(_NODE_SELECTOR), "Nodes that pods can run on."),
    preferredDuringSchedulingIgnoredDuringExecution=documented(
        Slice(_PREFERRED_TERM), "Nodes that are better than others."
    ),
)


class NodeAffinityArgs(Args, frozen=True):
    schema: ClassVar[Struct] = kind(
        "NodeAffinityArgs",
        addedAffinity=documented(
            Pointer(_NODE_AFFINITY), "Applies to all pods of the profile, in addition to their own affinity."
        ),
    )

    added_affinity: NodeAffinity | None = None

    def validate(self, path: str, features: FeatureGates) -> Iterator[str]:
        affinity = self.added_affinity
        if affinity is None:
            return
        path = child(path, "addedAffinity")
        required = affinity.required_during_scheduling_ignored_during_execution
        if required is not None:
            yield from node_selector_errors(required, child(path, "requiredDuringSchedulingIgnoredDuringExecution"))
        preferred = affinity.preferred_during_scheduling_ignored_during_execution or ()
        yield from preferred_terms_errors(preferred, child(path, "preferredDuringSchedulingIgnoredDuringExecution"))


DECLARATION = PluginDeclaration(
    name="NodeAffinity",
    points=frozenset({"preFilter", "filter", "preScore", "score"}),
    default=EnabledByDefault(order=60, weight=2),
    args_type=NodeAffinityArgs,
)
