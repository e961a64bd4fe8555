"""LegacyNodeLabel's declaration and arguments."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

from stowplan.kube.config.config_errors import invalid
from stowplan.kube.config.declaration import Args, PluginDeclaration
from stowplan.kube.config.features import FeatureGates
from stowplan.kube.config.schema import STRING, Slice, Struct, documented, kind


class LegacyNodeLabelArgs(Args, frozen=True):
    schema: ClassVar[Struct] = kind(
        "LegacyNodeLabelArgs",
        presentLabels=documented(Slice(STRING), "Keys that a node must have, with whatever value."),
        absentLabels=documented(Slice(STRING), "Keys that a node must not have."),
        presentLabelsPreference=documented(Slice(STRING), "Keys that make a node better."),
        absentLabelsPreference=documented(Slice(STRING), "Keys that make a node worse."),
    )

    #: Keys that a node must have, and those that it must not have.
    present_labels: tuple[str, ...] = ()
    absent_labels: tuple[str, ...] = ()
    #: Keys that are preferred to be present, and absent.
    present_labels_preference: tuple[str, ...] = ()
    absent_labels_preference: tuple[str, ...] = ()

    def validate(self, path: str, features: FeatureGates) -> Iterator[str]:
        yield from _conflicts(f"{path}.presentLabels", self.present_labels, "absentLabels", self.absent_labels)
        yield from _conflicts(
            f"{path}.presentLabelsPreference",
            self.present_labels_preference,
            "absentLabelsPreference",
            self.absent_labels_preference,
        )


def _conflicts(path: str, present: Sequence[str], other: str, absent: Sequence[str]) -> Iterator[str]:
    for i, key in enumerate(absent):
        for j, same in enumerate(present):
            if key == same:
                yield invalid(f"{path}[{j}]", key, f"conflict with {other}[{i}]")


DECLARATION = PluginDeclaration(
    name="LegacyNodeLabel",
    points=frozenset({"filter", "score"}),
    args_type=LegacyNodeLabelArgs,
    in_kube_scheduler=False,
    replaces={
        "NodeLabel": "Kubernetes removed it; this plugin of Stowplan works as it did",
    },
)
