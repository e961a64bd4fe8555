"""NodeUnschedulable's declaration."""

from stowplan.kube.config.declaration import EnabledByDefault, PluginDeclaration

DECLARATION = PluginDeclaration(
    name="NodeUnschedulable",
    points=frozenset({"filter"}),
    default=EnabledByDefault(order=30),
)
