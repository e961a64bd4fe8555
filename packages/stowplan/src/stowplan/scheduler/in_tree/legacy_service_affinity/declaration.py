"""LegacyServiceAffinity's declaration and arguments."""

from typing import ClassVar

from stowplan.kube.api.types import Service
from stowplan.kube.config.declaration import Args, PluginDeclaration
from stowplan.kube.config.schema import STRING, Slice, Struct, documented, kind


class LegacyServiceAffinityArgs(Args, frozen=True):
    schema: ClassVar[Struct] = kind(
        "LegacyServiceAffinityArgs",
        affinityLabels=documented(
            Slice(STRING), "Keys of labels whose values must be equal for all nodes with pods of one service."
        ),
        antiAffinityLabelsPreference=documented(
            Slice(STRING), "Keys of labels over whose values the pods of one service are spread."
        ),
    )

    affinity_labels: tuple[str, ...] = ()
    anti_affinity_labels_preference: tuple[str, ...] = ()


DECLARATION = PluginDeclaration(
    name="LegacyServiceAffinity",
    points=frozenset({"preFilter", "filter", "score"}),
    args_type=LegacyServiceAffinityArgs,
    reads=(Service,),
    in_kube_scheduler=False,
    replaces={"ServiceAffinity": "Kubernetes removed it; this plugin of Stowplan works as it did"},
)
