"""Annotations read by in-tree plugins; imports nothing, as declarations use it."""

#: On a CSINode: in-tree plugins whose volumes are served by CSI drivers there, comma-separated.
MIGRATED_PLUGINS = "storage.alpha.kubernetes.io/migrated-plugins"
#: On a claim or volume: the name of its class, from before there was a field for it.
STORAGE_CLASS = "volume.beta.kubernetes.io/storage-class"
#: On a claim: its volume is bound to it.
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
#: On a claim: the node for which to provision a volume.
SELECTED_NODE = "volume.kubernetes.io/selected-node"
#: On a volume: the controller bound it, and may unbind it.
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
#: On a volume.
AZURE_RESOURCE_GROUP = "kubernetes.io/azure-file-resource-group"
#: On a node.
PREFER_AVOID_PODS = "scheduler.alpha.kubernetes.io/preferAvoidPods"
