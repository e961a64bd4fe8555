"""NodeName's declaration."""

from stowplan.kube.config.declaration import EnabledByDefault, PluginDeclaration

DECLARATION = PluginDeclaration(
    name="NodeName",
    points=frozenset({"filter"}),
    default=EnabledByDefault(order=40),
)
