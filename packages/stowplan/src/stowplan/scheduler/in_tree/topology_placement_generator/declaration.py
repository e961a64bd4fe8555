"""TopologyPlacementGenerator's declaration."""

from stowplan.kube.api.types import PodGroup
from stowplan.kube.config.declaration import EnabledByDefault, PluginDeclaration

DECLARATION = PluginDeclaration(
    name="TopologyPlacementGenerator",
    points=frozenset({"placementGenerate"}),
    default=EnabledByDefault(order=220, gate="TopologyAwareWorkloadScheduling"),
    needs=(PodGroup,),
)
