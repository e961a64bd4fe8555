"""LegacyNodePreferAvoidPods' declaration."""

from stowplan.kube.config.declaration import PluginDeclaration
from stowplan.scheduler.in_tree.common.annotations import PREFER_AVOID_PODS

DECLARATION = PluginDeclaration(
    name="LegacyNodePreferAvoidPods",
    points=frozenset({"score"}),
    in_kube_scheduler=False,
    replaces={
        "NodePreferAvoidPods": "Kubernetes removed it; this plugin of Stowplan works as it did",
    },
    annotations=(PREFER_AVOID_PODS,),
)
