"""Annotations read by in-tree plugins; imports nothing, as declarations use it."""

#: On a CSINode: in-tree plugins whose volumes are served by CSI drivers there, comma-separated.
MIGRATED_PLUGINS = "storage.alpha.kubernetes.io/migrated-plugins"
#: On a volume.
AZURE_RESOURCE_GROUP = "kubernetes.io/azure-file-resource-group"
#: On a node.
PREFER_AVOID_PODS = "scheduler.alpha.kubernetes.io/preferAvoidPods"
