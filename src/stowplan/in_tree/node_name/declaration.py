"""NodeName's declaration."""

from stowplan.config.declaration import EnabledByDefault, PluginDeclaration

DECLARATION = PluginDeclaration(
    name="NodeName",
    points=frozenset({"filter"}),
    default=EnabledByDefault(order=40),
)
