"""SchedulingGates' declaration."""

from stowplan.kube.config.declaration import EnabledByDefault, PluginDeclaration

DECLARATION = PluginDeclaration(
    name="SchedulingGates",
    points=frozenset({"preEnqueue"}),
    default=EnabledByDefault(order=10),
)
