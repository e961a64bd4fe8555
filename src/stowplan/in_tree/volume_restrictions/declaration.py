"""VolumeRestrictions' declaration."""

from stowplan.api.types import PersistentVolume, PersistentVolumeClaim
from stowplan.config.declaration import EnabledByDefault, PluginDeclaration

DECLARATION = PluginDeclaration(
    name="VolumeRestrictions",
    points=frozenset({"preFilter", "filter"}),
    default=EnabledByDefault(order=90),
    needs=(PersistentVolumeClaim, PersistentVolume),
)
