"""NodePorts' declaration."""

from stowplan.kube.config.declaration import EnabledByDefault, PluginDeclaration

DECLARATION = PluginDeclaration(
    name="NodePorts",
    points=frozenset({"preFilter", "filter"}),
    default=EnabledByDefault(order=70),
)
