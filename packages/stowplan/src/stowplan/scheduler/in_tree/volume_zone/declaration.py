"""VolumeZone's declaration."""

from stowplan.kube.api.types import PersistentVolume, PersistentVolumeClaim, StorageClass
from stowplan.kube.config.declaration import EnabledByDefault, PluginDeclaration
from stowplan.scheduler.in_tree.common.annotations import STORAGE_CLASS

DECLARATION = PluginDeclaration(
    name="VolumeZone",
    points=frozenset({"preFilter", "filter"}),
    default=EnabledByDefault(order=120),
    needs=(PersistentVolumeClaim, PersistentVolume, StorageClass),
    annotations=(STORAGE_CLASS,),
)
