"""VolumeRestrictions' declaration."""

from stowplan.kube.api.types import PersistentVolume, PersistentVolumeClaim
from stowplan.kube.config.declaration import EnabledByDefault, PluginDeclaration

DECLARATION = PluginDeclaration(
    name="VolumeRestrictions",
    points=frozenset({"preFilter", "filter"}),
    default=EnabledByDefault(order=90),
    needs=(PersistentVolumeClaim, PersistentVolume),
)
