"""What NodeAffinity declares about itself, its arguments included."""

from collections.abc import Iterator
from typing import ClassVar

from stowplan.api.field_errors import child
from stowplan.api.node_selectors import node_selector_errors, preferred_terms_errors
from stowplan.api.types import NodeAffinity
from stowplan.config.declaration import Args, EnabledByDefault, PluginDeclaration
from stowplan.config.features import FeatureGates
from stowplan.config.schema import INT32, STRING, Pointer, Slice, Struct, always, kind, named_string, struct

_REQUIREMENT = struct(
    "NodeSelectorRequirement",
    key=always(STRING),
    operator=always(named_string("v1.NodeSelectorOperator")),
    values=Slice(STRING),
)
_TERM = struct("NodeSelectorTerm", matchExpressions=Slice(_REQUIREMENT), matchFields=Slice(_REQUIREMENT))
_NODE_SELECTOR = struct("NodeSelector", nodeSelectorTerms=always(Slice(_TERM)))
_PREFERRED_TERM = struct("PreferredSchedulingTerm", weight=always(INT32), preference=always(_TERM))
_NODE_AFFINITY = struct(
    "NodeAffinity",
    requiredDuringSchedulingIgnoredDuringExecution=Pointer(_NODE_SELECTOR),
    preferredDuringSchedulingIgnoredDuringExecution=Slice(_PREFERRED_TERM),
)


class NodeAffinityArgs(Args, frozen=True):
    schema: ClassVar[Struct] = kind("NodeAffinityArgs", addedAffinity=Pointer(_NODE_AFFINITY))

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
