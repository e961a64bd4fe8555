"""VolumeBinding's declaration and arguments."""

from collections.abc import Iterator
from typing import ClassVar

from msgspec.structs import replace

from stowplan.kube.api.field_errors import child
from stowplan.kube.api.types import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from stowplan.kube.claims.claim_terms import BIND_COMPLETED, BOUND_BY_CONTROLLER, SELECTED_NODE, STORAGE_CLASS
from stowplan.kube.config.config_errors import invalid
from stowplan.kube.config.declaration import Args, EnabledByDefault, PluginDeclaration
from stowplan.kube.config.features import FeatureGates
from stowplan.kube.config.schema import INT64, Pointer, Slice, Struct, documented, kind
from stowplan.scheduler.in_tree.common.annotations import AZURE_RESOURCE_GROUP, MIGRATED_PLUGINS
from stowplan.scheduler.in_tree.common.args import (
    MAX_CUSTOM_PRIORITY_SCORE,
    SHAPE_POINT,
    UtilizationShapePoint,
    shape_errors,
)

_DEFAULT_SHAPE = (UtilizationShapePoint(0, MAX_CUSTOM_PRIORITY_SCORE), UtilizationShapePoint(100, 0))


class VolumeBindingArgs(Args, frozen=True):
    schema: ClassVar[Struct] = kind(
        "VolumeBindingArgs",
        bindTimeoutSeconds=documented(Pointer(INT64), "How long a pod waits for its volumes to be bound.", least=0),
        shape=documented(
            Slice(SHAPE_POINT),
            "The score of a node by how full its storage would be; only with the feature gate StorageCapacityScoring.",
        ),
    )

    bind_timeout_seconds: int = 600
    #: None = absent, which validation distinguishes from empty.
    shape: tuple[UtilizationShapePoint, ...] | None = None

    def completed(self, features: FeatureGates) -> "VolumeBindingArgs":
        if self.shape or not features.enabled("StorageCapacityScoring"):
            return self
        return replace(self, shape=_DEFAULT_SHAPE)

    def validate(self, path: str, features: FeatureGates) -> Iterator[str]:
        if self.bind_timeout_seconds < 0:
            reason = "invalid BindTimeoutSeconds, should not be a negative value"
            yield invalid(child(path, "bindTimeoutSeconds"), self.bind_timeout_seconds, reason)
        shape_path = child(path, "shape")
        if features.enabled("StorageCapacityScoring"):
            yield from shape_errors(shape_path, self.shape or ())
        elif self.shape is not None:
            points = [{"Utilization": point.utilization, "Score": point.score} for point in self.shape]
            reason = "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring"
            yield invalid(shape_path, points, reason)


DECLARATION = PluginDeclaration(
    name="VolumeBinding",
    points=frozenset({"preFilter", "filter", "preScore", "score", "reserve", "preBind"}),
    default=EnabledByDefault(order=110),
    args_type=VolumeBindingArgs,
    needs=(PersistentVolumeClaim, PersistentVolume, StorageClass, CSINode, CSIDriver, CSIStorageCapacity),
    annotations=(
        AZURE_RESOURCE_GROUP,
        BIND_COMPLETED,
        BOUND_BY_CONTROLLER,
        MIGRATED_PLUGINS,
        SELECTED_NODE,
        STORAGE_CLASS,
    ),
)
