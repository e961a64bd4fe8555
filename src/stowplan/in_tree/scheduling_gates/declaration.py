"""SchedulingGates' declaration."""

from stowplan.config.declaration import EnabledByDefault, PluginDeclaration

DECLARATION = PluginDeclaration(
    name="SchedulingGates",
    points=frozenset({"preEnqueue"}),
    default=EnabledByDefault(order=10),
)
