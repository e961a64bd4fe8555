"""What NodeVolumeLimits declares about itself."""

from stowplan.api.types import (
    CSIDriver,
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from stowplan.config.declaration import EnabledByDefault, PluginDeclaration

DECLARATION = PluginDeclaration(
    name="NodeVolumeLimits",
    points=frozenset({"preFilter", "filter"}),
    default=EnabledByDefault(order=100),
    needs=(PersistentVolumeClaim, PersistentVolume, StorageClass, CSINode, CSIDriver, VolumeAttachment),
)
