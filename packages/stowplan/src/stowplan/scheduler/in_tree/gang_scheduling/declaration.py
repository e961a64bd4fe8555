"""GangScheduling's declaration."""

from stowplan.kube.api.types import PodGroup
from stowplan.kube.config.declaration import EnabledByDefault, PluginDeclaration

DECLARATION = PluginDeclaration(
    name="GangScheduling",
    points=frozenset({"preEnqueue", "permit"}),
    default=EnabledByDefault(order=210, gate="GangScheduling"),
    needs=(PodGroup,),
)
