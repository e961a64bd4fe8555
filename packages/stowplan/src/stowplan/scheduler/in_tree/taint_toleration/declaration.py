"""TaintToleration's declaration."""

from stowplan.kube.config.declaration import EnabledByDefault, PluginDeclaration

DECLARATION = PluginDeclaration(
    name="TaintToleration",
    points=frozenset({"filter", "preScore", "score"}),
    default=EnabledByDefault(order=50, weight=3),
)
