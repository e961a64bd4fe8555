"""NodeUnschedulable's declaration."""

from stowplan.config.declaration import EnabledByDefault, PluginDeclaration

DECLARATION = PluginDeclaration(
    name="NodeUnschedulable",
    points=frozenset({"filter"}),
    default=EnabledByDefault(order=30),
)
