"""NodeVolumeLimits' declaration."""

from stowplan.kube.api.types import (
    CSIDriver,
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from stowplan.kube.claims.claim_terms import STORAGE_CLASS
from stowplan.kube.config.declaration import EnabledByDefault, PluginDeclaration
from stowplan.scheduler.in_tree.common.annotations import AZURE_RESOURCE_GROUP, MIGRATED_PLUGINS

_ALL_CLOUDS = "the volumes of all clouds are counted as those of their CSI drivers"

DECLARATION = PluginDeclaration(
    name="NodeVolumeLimits",
    points=frozenset({"preFilter", "filter"}),
    default=EnabledByDefault(order=100),
    needs=(PersistentVolumeClaim, PersistentVolume, StorageClass, CSINode, CSIDriver, VolumeAttachment),
    replaces={
        "EBSLimits": _ALL_CLOUDS,
        "GCEPDLimits": _ALL_CLOUDS,
        "AzureDiskLimits": _ALL_CLOUDS,
        "CinderLimits": _ALL_CLOUDS,
    },
    annotations=(AZURE_RESOURCE_GROUP, MIGRATED_PLUGINS, STORAGE_CLASS),
)
