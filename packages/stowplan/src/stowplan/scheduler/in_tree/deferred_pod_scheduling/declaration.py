"""DeferredPodScheduling's declaration."""

from stowplan.kube.config.declaration import EnabledByDefault, PluginDeclaration
from stowplan.kube.kubernetes_versions import V1_37

DECLARATION = PluginDeclaration(
    name="DeferredPodScheduling",
    points=frozenset({"preFilter", "filter", "permit"}),
    since=V1_37,
    default=EnabledByDefault(order=240, gate="InPlacePodVerticalScalingSchedulerPreemption"),
)
