"""ImageLocality's declaration."""

from stowplan.kube.config.declaration import EnabledByDefault, PluginDeclaration

DECLARATION = PluginDeclaration(
    name="ImageLocality",
    points=frozenset({"score"}),
    default=EnabledByDefault(order=180, weight=1),
)
