"""NodeDeclaredFeatures' declaration."""

from stowplan.config.declaration import EnabledByDefault, PluginDeclaration

DECLARATION = PluginDeclaration(
    name="NodeDeclaredFeatures",
    points=frozenset({"preFilter", "filter"}),
    default=EnabledByDefault(order=200, gate="NodeDeclaredFeatures"),
)
