"""Annotations read by in-tree plugins; imports nothing, as declarations use it."""

#: Of a CSINode: in-tree plugins whose volumes CSI drivers serve there, separated by commas.
MIGRATED_PLUGINS = "storage.alpha.kubernetes.io/migrated-plugins"
#: Of a claim or a volume: the name of its class, before there was a field for it.
STORAGE_CLASS = "volume.beta.kubernetes.io/storage-class"
#: Of a claim: the volume that it names was bound to it, and is its own.
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
#: Of a claim: the node for which a volume is to be made.
SELECTED_NODE = "volume.kubernetes.io/selected-node"
#: Of a volume: whoever bound it may also release it.
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
#: Of a volume.
AZURE_RESOURCE_GROUP = "kubernetes.io/azure-file-resource-group"
#: Of a node.
PREFER_AVOID_PODS = "scheduler.alpha.kubernetes.io/preferAvoidPods"
