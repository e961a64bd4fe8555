"""NodeDeclaredFeatures' declaration."""

from stowplan.kube.config.declaration import EnabledByDefault, PluginDeclaration

DECLARATION = PluginDeclaration(
    name="NodeDeclaredFeatures",
    points=frozenset({"preFilter", "filter"}),
    default=EnabledByDefault(order=200, gate="NodeDeclaredFeatures"),
)
