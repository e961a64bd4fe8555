"""DefaultPreemption's declaration and arguments."""

from collections.abc import Iterator
from typing import ClassVar

from stowplan.kube.api.field_errors import child
from stowplan.kube.api.types import PodDisruptionBudget
from stowplan.kube.config.config_errors import invalid
from stowplan.kube.config.declaration import Args, EnabledByDefault, PluginDeclaration
from stowplan.kube.config.features import FeatureGates
from stowplan.kube.config.schema import INT32, Pointer, Struct, documented, kind


class DefaultPreemptionArgs(Args, frozen=True):
    schema: ClassVar[Struct] = kind(
        "DefaultPreemptionArgs",
        minCandidateNodesPercentage=documented(
            Pointer(INT32), "Share of nodes on which a dry run looks for victims, at least.", least=0, most=100
        ),
        minCandidateNodesAbsolute=documented(
            Pointer(INT32), "Number of nodes on which a dry run looks for victims, at least; not 0 as well.", least=0
        ),
    )

    min_candidate_nodes_percentage: int = 10
    min_candidate_nodes_absolute: int = 100

    def validate(self, path: str, features: FeatureGates) -> Iterator[str]:
        percentage, absolute = self.min_candidate_nodes_percentage, self.min_candidate_nodes_absolute
        percentage_path = child(path, "minCandidateNodesPercentage")
        absolute_path = child(path, "minCandidateNodesAbsolute")
        if not 0 <= percentage <= 100:
            yield invalid(percentage_path, percentage, "not in valid range [0, 100]")
        if absolute < 0:
            yield invalid(absolute_path, absolute, "not in valid range [0, inf)")
        if percentage == 0 == absolute:
            both = "cannot be zero at the same time as"
            yield invalid(percentage_path, percentage, f"{both} minCandidateNodesAbsolute")
            yield invalid(absolute_path, absolute, f"{both} minCandidateNodesPercentage")


DECLARATION = PluginDeclaration(
    name="DefaultPreemption",
    points=frozenset({"preEnqueue", "postFilter", "podGroupPostFilter"}),
    default=EnabledByDefault(order=160),
    args_type=DefaultPreemptionArgs,
    reads=(PodDisruptionBudget,),
)
