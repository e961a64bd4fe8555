"""TopologyPlacementGenerator's declaration."""

from stowplan.api.types import PodGroup
from stowplan.config.declaration import EnabledByDefault, PluginDeclaration

DECLARATION = PluginDeclaration(
    name="TopologyPlacementGenerator",
    points=frozenset({"placementGenerate"}),
    default=EnabledByDefault(order=220, gate="TopologyAwareWorkloadScheduling"),
    needs=(PodGroup,),
)
