"""VolumeZone's declaration."""

from stowplan.kube.api.types import PersistentVolume, PersistentVolumeClaim, StorageClass
from stowplan.kube.claims.claim_terms import STORAGE_CLASS
from stowplan.kube.config.declaration import EnabledByDefault, PluginDeclaration

DECLARATION = PluginDeclaration(
    name="VolumeZone",
    points=frozenset({"preFilter", "filter"}),
    default=EnabledByDefault(order=120),
    needs=(PersistentVolumeClaim, PersistentVolume, StorageClass),
    annotations=(STORAGE_CLASS,),
)
