"""What LegacyNodePreferAvoidPods declares about itself."""

from stowplan.config.declaration import PluginDeclaration

DECLARATION = PluginDeclaration(
    name="LegacyNodePreferAvoidPods",
    points=frozenset({"score"}),
)
