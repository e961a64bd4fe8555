"""Annotations of claims and volumes; imports nothing, as declarations use it."""

#: On a claim or volume: the name of its class, from before there was a field for it.
STORAGE_CLASS = "volume.beta.kubernetes.io/storage-class"
#: On a claim: its volume is bound to it.
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
#: On a claim: the node for which to provision a volume.
SELECTED_NODE = "volume.kubernetes.io/selected-node"
#: On a claim: the provisioner that has to create its volume, under the newer and the older name.
STORAGE_PROVISIONER = "volume.kubernetes.io/storage-provisioner"
BETA_STORAGE_PROVISIONER = "volume.beta.kubernetes.io/storage-provisioner"
#: On a volume, or on a claim: the controller bound it, and may unbind it.
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
#: On a volume: the provisioner that created it.
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
