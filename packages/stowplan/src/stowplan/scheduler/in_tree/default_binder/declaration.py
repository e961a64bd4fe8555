"""DefaultBinder's declaration."""

from stowplan.kube.config.declaration import EnabledByDefault, PluginDeclaration

DECLARATION = PluginDeclaration(
    name="DefaultBinder",
    points=frozenset({"bind"}),
    default=EnabledByDefault(order=190),
)
