"""The kinds, and those of their parts that many modules name: re-exported, to be imported from one place."""

from stowplan.kube.api.affinity import (
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodAffinityTerm,
    PreferredSchedulingTerm,
    Taint,
    Toleration,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from stowplan.kube.api.device_claims import ResourceClaim
from stowplan.kube.api.devices import DeviceClass, DeviceTaintRule, ResourceSlice
from stowplan.kube.api.meta import (
    ApiStruct,
    LabelSelector,
    LabelSelectorRequirement,
    ObjectMeta,
    ObjectReference,
    OwnerReference,
    QuantityValue,
)
from stowplan.kube.api.node import Namespace, Node
from stowplan.kube.api.pod import (
    Container,
    Pod,
    PodCondition,
    PodResourceClaim,
    PodSchedulingGate,
    PodSchedulingGroup,
    PodSpec,
    PodStatus,
)
from stowplan.kube.api.policy import (
    CoreEvent,
    Event,
    EventSeries,
    EventSource,
    Lease,
    LeaseCandidate,
    LeaseSpec,
    PodDisruptionBudget,
    PriorityClass,
)
from stowplan.kube.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    StorageClass,
    VolumeAttachment,
    VolumeNodeAffinity,
)
from stowplan.kube.api.volumes import Volume
from stowplan.kube.api.workloads import (
    CompositePodGroup,
    PodGroup,
    PodGroupCondition,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
)
