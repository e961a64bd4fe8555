"""PrioritySort's declaration."""

from stowplan.kube.config.declaration import EnabledByDefault, PluginDeclaration

DECLARATION = PluginDeclaration(
    name="PrioritySort",
    points=frozenset({"queueSort"}),
    default=EnabledByDefault(order=20),
)
