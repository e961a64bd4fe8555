"""What LegacyNodePreferAvoidPods declares about itself."""

from stowplan.config.declaration import PluginDeclaration

DECLARATION = PluginDeclaration(
    name="LegacyNodePreferAvoidPods",
    points=frozenset({"score"}),
    replaces={
        "NodePreferAvoidPods": "Kubernetes removed it; this plugin of Stowplan works as it did",
    },
)
