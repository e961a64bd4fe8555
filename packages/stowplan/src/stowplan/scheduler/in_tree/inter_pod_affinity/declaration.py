"""InterPodAffinity's declaration and arguments."""

from collections.abc import Iterator
from typing import ClassVar

from stowplan.kube.api.field_errors import child
from stowplan.kube.config.config_errors import invalid
from stowplan.kube.config.declaration import Args, EnabledByDefault, PluginDeclaration
from stowplan.kube.config.features import FeatureGates
from stowplan.kube.config.schema import BOOL, INT32, Pointer, Struct, documented, kind, not_omitted


class InterPodAffinityArgs(Args, frozen=True):
    schema: ClassVar[Struct] = kind(
        "InterPodAffinityArgs",
        hardPodAffinityWeight=documented(
            Pointer(INT32), "What required affinities of pods that run count in the score of others.", least=0, most=100
        ),
        ignorePreferredTermsOfExistingPods=documented(
            not_omitted(BOOL),
            "Ignore preferred affinities of existing pods in scores, unless the incoming pod has preferences itself: "
            "reduces work.",
        ),
    )

    hard_pod_affinity_weight: int = 1
    ignore_preferred_terms_of_existing_pods: bool = False

    def validate(self, path: str, features: FeatureGates) -> Iterator[str]:
        weight = self.hard_pod_affinity_weight
        if not 0 <= weight <= 100:
            yield invalid(child(path, "hardPodAffinityWeight"), weight, "not in valid range [0, 100]")


DECLARATION = PluginDeclaration(
    name="InterPodAffinity",
    points=frozenset({"preFilter", "filter", "preScore", "score"}),
    default=EnabledByDefault(order=140, weight=2),
    args_type=InterPodAffinityArgs,
)
