"""VolumeZone's declaration."""

from stowplan.api.types import PersistentVolume, PersistentVolumeClaim, StorageClass
from stowplan.config.declaration import EnabledByDefault, PluginDeclaration
from stowplan.in_tree.common.annotations import STORAGE_CLASS

DECLARATION = PluginDeclaration(
    name="VolumeZone",
    points=frozenset({"preFilter", "filter"}),
    default=EnabledByDefault(order=120),
    needs=(PersistentVolumeClaim, PersistentVolume, StorageClass),
    annotations=(STORAGE_CLASS,),
)
