"""PodGroupPodsCount's declaration."""

from stowplan.kube.config.declaration import EnabledByDefault, PluginDeclaration

DECLARATION = PluginDeclaration(
    name="PodGroupPodsCount",
    points=frozenset({"placementScore"}),
    default=EnabledByDefault(order=230, weight=1, gate="TopologyAwareWorkloadScheduling"),
)
