"""All feature gates of Kubernetes 1.36, with stage and default, and those of earlier versions, for --emulated-version.

A scheduler reads a few of them; `--feature-gates` accepts all, as clusters pass the same list to every component, and
rejects unknown ones. Those of earlier versions were observed from kube-scheduler 1.36 itself, emulating each version:
`kubernetes_feature_enabled` of its metrics, and the gates that it refuses to set.

Upstream: pkg/features/kube_features.go and the libraries' own lists.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Literal

from stowplan.kube.config.features import NEEDED_WITH
from stowplan.kube.structs import PlainStruct

#: The versions of the columns below.
MINORS = (33, 34, 35)

#: Stage, default and "!" if locked, one word per version -> the gates with this history. "-": does not exist yet; a, b,
#: g, d: alpha, beta, GA, deprecated; +, -: on, off by default. Other gates have not changed.
EARLIER = {
    "- - -": """
        AtomicFIFO CRIListStreaming ClientsAllowCARotation ClientsAllowTLSCacheGC DRAListTypeAttributes
        DRANodeAllocatableResources DRAResourceClaimGranularStatusAuthorization DRAResourcePoolStatus
        DRAWorkloadResourceClaims DeclarativeValidationBeta ExtendWebSocketsToKubelet
        InPlacePodVerticalScalingInitContainers ManifestBasedAdmissionControlConfig NativeHistograms
        PLEGOnDemandRelist PersistentVolumeClaimUnusedSinceTime PodLevelResourceManagers PodsAPI
        ReloadKubeletClientCAFile ResourceHealthStatusMessage ShardedListAndWatch
        StaleControllerConsistencyDaemonSet StaleControllerConsistencyJob StaleControllerConsistencyReplicaSet
        StaleControllerConsistencyStatefulSet TopologyAwareWorkloadScheduling UnlockWhileProcessingFIFO
        WorkloadAwarePreemption WorkloadWithJob
    """,
    "- - a-": """
        CloudControllerManagerWatchBasedRoutesReconciliation ConstrainedImpersonation DRADeviceTaintRules
        GangScheduling GenericWorkload ImageVolumeWithDigest InPlacePodLevelResourcesVerticalScaling
        MutablePVNodeAffinity MutablePodResourcesForSuspendedJobs MutableSchedulingDirectivesForSuspendedJobs
        NodeDeclaredFeatures RestartAllContainersOnContainerExits TaintTolerationComparisonOperators
        UserNamespacesHostNetworkSupport VolumeLimitScaling
    """,
    "- - b+": """
        AuthorizePodWebsocketUpgradeCreatePermission CSIServiceAccountTokenSecrets InOrderInformersBatchProcess
        OpportunisticBatching StructuredAuthenticationConfigurationJWKSMetrics
    """,
    "- - b-": "CRDObservedGenerationTracking",
    "- a- a-": """
        DRAConsumableCapacity DRADeviceBindingConditions DRAExtendedResource
        InPlacePodVerticalScalingExclusiveMemory RelaxedServiceNameValidation
    """,
    "- a- b+": """
        ClearingNominatedNodeNameAfterBinding ContainerRestartRules EnvFiles HostnameOverride
        NominatedNodeNameForExpectation
    """,
    "- a- b-": "PodCertificateRequest",
    "- b+ b+": """
        DRASchedulerFilterTimeout DetectCacheInconsistency MatchLabelKeysInPodTopologySpreadSelectorMerge
        PreventStaticPodAPIReferences SizeBasedListCostEstimate
        StructuredAuthenticationConfigurationEgressSelector TokenRequestServiceAccountUIDValidation
    """,
    "- b- b-": "SchedulerAsyncAPICalls",
    "a- a- a-": """
        ComponentFlagz ComponentStatusz CustomCPUCFSQuotaPeriod DRADeviceTaints DRAPartitionableDevices
        ResourceHealthStatus StrictIPCIDRValidation UnknownVersionInteroperabilityProxy
    """,
    "a- a- b+": """
        DeploymentReplicaSetTerminatingReplicas HPAConfigurableTolerance KubeletCrashLoopBackOffMax
        KubeletEnsureSecretPulledImages PodTopologyLabelsAdmission
    """,
    "a- a- b-": "MaxUnavailableStatefulSet StorageVersionMigrator",
    "a- a- g+": "InformerResourceVersion",
    "a- b+ b+": """
        DRAAdminAccess DRAPrioritizedList ExternalServiceAccountTokenSigner KubeletPSI
        KubeletPodResourcesDynamicResources KubeletPodResourcesGet
        KubeletServiceAccountTokenForCredentialProviders ListFromCacheSnapshot PodLevelResources
        WindowsGracefulNodeShutdown
    """,
    "a- b+ g+!": "PodObservedGenerationTracking PreferSameTrafficDistribution",
    "a- b- b+": "MutableCSINodeAllocatableCount",
    "a- b- b-": "MutatingAdmissionPolicy",
    "b+ b+ b+": """
        DeclarativeValidation DisableCPUQuotaWithExclusiveCPUs InOrderInformers KubeletFineGrainedAuthz
        NodeLogQuery ProcMountType SELinuxChangePolicy SELinuxMountReadWriteOncePod UserNamespacesSupport
    """,
    "b+ b+ g+!": """
        ImageMaximumGCAge InPlacePodVerticalScaling JobManagedBy SupplementalGroupsPolicy SystemdWatchdog
    """,
    "b+ g+! g+!": """
        APIServerTracing AnonymousAuthConfigurableEndpoints AuthorizeNodeWithSelectors AuthorizeWithSelectors
        ConsistentListFromCache JobPodReplacementPolicy KubeletCgroupDriverFromCRI KubeletTracing NodeSwap
        OrderedNamespaceDeletion PodLifecycleSleepAction PodLifecycleSleepActionAllowZero
        RecoverVolumeExpansionFailure RelaxedDNSSearchValidation RelaxedEnvironmentVariableValidation
        ResilientWatchCacheInitialization SchedulerQueueingHints SeparateTaintEvictionController
        StreamingCollectionEncodingToJSON StreamingCollectionEncodingToProtobuf
        StructuredAuthenticationConfiguration WinDSR WinOverlay
    """,
    "b- b+ b+": "WatchList",
    "b- b- b+": "ImageVolume WatchListClient",
    "b- b- b-": "DeclarativeValidationTakeover WatchCacheInitializationPostStartHook",
    "b- g+ g+": "VolumeAttributesClass",
    "b- g+ g+!": "DisableAllocatorDualWrite DynamicResourceAllocation",
    "d+ d+ d+": "DisableNodeKubeProxyVersion",
    "d+ d+ d+!": "AggregatedDiscoveryRemoveBetaType",
    "d- d- d-": "GitRepoVolumeDriver SeparateCacheWatchRPC",
    "d- d- d-!": "AllowOverwriteTerminationGracePeriodSeconds",
    "g+ g+ d-": "ChangeContainerStatusOnKubeletRestart",
    "g+ g+ g+!": "ExecProbeTimeout",
    "g+ g+! g+!": "MultiCIDRServiceAllocator",
    "g- d+ d+": "KubeletPodResourcesListUseActivePods",
    "g- g- g-": "ServiceCIDRStatusFieldWiping",
}


Stage = Literal["PREALPHA", "ALPHA", "BETA", "GA", "DEPRECATED"]

_ALPHA = """
    APIServingWithRoutine AllAlpha AllowUnsafeMalformedObjectDeletion CBORServingAndStorage
    CPUManagerPolicyAlphaOptions CRIListStreaming CSIVolumeHealth ClientsAllowCBOR ClientsPreferCBOR
    CloudControllerManagerWatchBasedRoutesReconciliation CloudControllerManagerWebhook ContainerStopSignals
    CrossNamespaceVolumeDataSource DRAListTypeAttributes DRANodeAllocatableResources DRAResourcePoolStatus
    DRAWorkloadResourceClaims EventedPLEG GangScheduling GenericWorkload HPAScaleToZero ImageVolumeWithDigest
    InPlacePodVerticalScalingExclusiveCPUs InPlacePodVerticalScalingExclusiveMemory KubeletInUserNamespace
    LoggingAlphaOptions ManifestBasedAdmissionControlConfig MemoryQoS MutablePVNodeAffinity NativeHistograms
    PersistentVolumeClaimUnusedSinceTime PodAndContainerStatsFromCRI PodLevelResourceManagers
    PodLogsQuerySplitStreams PodsAPI QOSReserved ReduceDefaultCrashLoopBackOffDecay RuntimeClassInImageCriApi
    ShardedListAndWatch StorageCapacityScoring StorageVersionAPI TaintTolerationComparisonOperators
    TopologyAwareWorkloadScheduling TopologyManagerPolicyAlphaOptions UserNamespacesHostNetworkSupport
    VolumeLimitScaling WindowsCPUAndMemoryAffinity WorkloadAwarePreemption WorkloadWithJob
"""
_BETA_ON = """
    APIResponseCompression APIServerIdentity AllowParsingUserUIDFromCertAuth AtomicFIFO
    AuthorizePodWebsocketUpgradeCreatePermission CPUManagerPolicyBetaOptions CRDObservedGenerationTracking
    ClearingNominatedNodeNameAfterBinding ClientsAllowCARotation ClientsAllowTLSCacheGC ComponentFlagz
    ComponentStatusz ConstrainedImpersonation ContainerCheckpoint ContainerRestartRules ContextualLogging
    DRAConsumableCapacity DRADeviceBindingConditions DRADeviceTaints DRAExtendedResource DRAPartitionableDevices
    DRAResourceClaimDeviceStatus DRAResourceClaimGranularStatusAuthorization DRASchedulerFilterTimeout
    DeclarativeValidationBeta DeploymentReplicaSetTerminatingReplicas DetectCacheInconsistency EnvFiles
    ExtendWebSocketsToKubelet GracefulNodeShutdown GracefulNodeShutdownBasedOnPodPriority
    HPAConfigurableTolerance HostnameOverride InOrderInformersBatchProcess
    InPlacePodLevelResourcesVerticalScaling InPlacePodVerticalScalingInitContainers KubeletCrashLoopBackOffMax
    KubeletEnsureSecretPulledImages KubeletSeparateDiskGC KubeletServiceAccountTokenForCredentialProviders
    ListFromCacheSnapshot LoggingBetaOptions MatchLabelKeysInPodTopologySpread
    MatchLabelKeysInPodTopologySpreadSelectorMerge MutablePodResourcesForSuspendedJobs
    MutableSchedulingDirectivesForSuspendedJobs NodeDeclaredFeatures NominatedNodeNameForExpectation
    OpenAPIEnums OpportunisticBatching PLEGOnDemandRelist PodDeletionCost PodLevelResources
    PodReadyToStartContainersCondition PodTopologyLabelsAdmission PortForwardWebsockets
    PreventStaticPodAPIReferences RelaxedServiceNameValidation ReloadKubeletClientCAFile
    ReloadKubeletServerCertificateFile RemoteRequestHeaderUID ResourceHealthStatus ResourceHealthStatusMessage
    RestartAllContainersOnContainerExits RotateKubeletServerCertificate SchedulerAsyncPreemption
    SchedulerPopFromBackoffQ ServiceAccountNodeAudienceRestriction SizeBasedListCostEstimate
    StaleControllerConsistencyDaemonSet StaleControllerConsistencyJob StaleControllerConsistencyReplicaSet
    StaleControllerConsistencyStatefulSet StatefulSetSemanticRevisionComparison StorageVersionHash
    StrictIPCIDRValidation StructuredAuthenticationConfigurationEgressSelector
    StructuredAuthenticationConfigurationJWKSMetrics TokenRequestServiceAccountUIDValidation
    TopologyManagerPolicyBetaOptions TranslateStreamCloseWebsocketRequests UnauthenticatedHTTP2DOSMitigation
    UnknownVersionInteroperabilityProxy UnlockWhileProcessingFIFO WatchCacheInitializationPostStartHook
    WatchList WatchListClient WindowsGracefulNodeShutdown
"""
_BETA_OFF = """
    AllBeta ClusterTrustBundle ClusterTrustBundleProjection ConcurrentWatchObjectDecode
    CoordinatedLeaderElection DRADeviceTaintRules LocalStorageCapacityIsolationFSQuotaMonitoring
    MaxUnavailableStatefulSet PodCertificateRequest SELinuxMount SchedulerAsyncAPICalls StorageVersionMigrator
"""
_GA_LOCKED = """
    APIServerTracing AnonymousAuthConfigurableEndpoints AnyVolumeDataSource AuthorizeNodeWithSelectors
    AuthorizeWithSelectors BtreeWatchCache CPUManagerPolicyOptions CRDValidationRatcheting
    CSIServiceAccountTokenSecrets ConsistentListFromCache CustomResourceFieldSelectors DRAAdminAccess
    DeclarativeValidation DisableAllocatorDualWrite DynamicResourceAllocation ExecProbeTimeout
    ExternalServiceAccountTokenSigner ImageMaximumGCAge ImageVolume InOrderInformers InPlacePodVerticalScaling
    JobBackoffLimitPerIndex JobManagedBy JobPodReplacementPolicy JobSuccessPolicy KubeletCgroupDriverFromCRI
    KubeletFineGrainedAuthz KubeletPSI KubeletPodResourcesDynamicResources KubeletPodResourcesGet KubeletTracing
    LogarithmicScaleDown MatchLabelKeysInPodAffinity MultiCIDRServiceAllocator MutableCSINodeAllocatableCount
    NFTablesProxyMode NodeInclusionPolicyInPodTopologySpread NodeLogQuery NodeSwap OrderedNamespaceDeletion
    PodLifecycleSleepAction PodLifecycleSleepActionAllowZero PodObservedGenerationTracking
    PodSchedulingReadiness PreferSameTrafficDistribution ProcMountType RecoverVolumeExpansionFailure
    RecursiveReadOnlyMounts RelaxedDNSSearchValidation RelaxedEnvironmentVariableValidation
    ResilientWatchCacheInitialization RetryGenerateName SELinuxChangePolicy SELinuxMountReadWriteOncePod
    SchedulerQueueingHints SeparateTaintEvictionController ServiceAccountTokenJTI ServiceAccountTokenNodeBinding
    ServiceAccountTokenNodeBindingValidation ServiceAccountTokenPodNodeInfo SidecarContainers
    StreamingCollectionEncodingToJSON StreamingCollectionEncodingToProtobuf
    StructuredAuthenticationConfiguration SupplementalGroupsPolicy SystemdWatchdog TopologyManagerPolicyOptions
    UserNamespacesSupport VolumeAttributesClass WinDSR WinOverlay
"""
_GA = """
    AllowServiceExternalIPs CustomCPUCFSQuotaPeriod DRAPrioritizedList InformerResourceVersion
    MutatingAdmissionPolicy
"""
_DEPRECATED_ON = """
    AggregatedDiscoveryRemoveBetaType DisableCPUQuotaWithExclusiveCPUs DisableNodeKubeProxyVersion
    KubeletPodResourcesListUseActivePods ServiceCIDRStatusFieldWiping StorageNamespaceIndex
"""
_DEPRECATED_OFF = """
    AllowDNSOnlyNodeCSR AllowInsecureKubeletCertificateSigningRequests
    AllowOverwriteTerminationGracePeriodSeconds ChangeContainerStatusOnKubeletRestart
    DeclarativeValidationTakeover GitRepoVolumeDriver KMSv1 KubeletRegistrationGetOnExistsOnly
    SeparateCacheWatchRPC WindowsHostNetwork
"""
_DEPRECATED_LOCKED = """
    AggregatedDiscoveryRemoveBetaType AllowOverwriteTerminationGracePeriodSeconds DisableNodeKubeProxyVersion
    GitRepoVolumeDriver SeparateCacheWatchRPC
"""


class Gate(PlainStruct, frozen=True):
    stage: Stage
    default: bool
    locked: bool = False


def _known() -> dict[str, Gate]:
    groups: tuple[tuple[str, Gate], ...] = (
        (_ALPHA, Gate("ALPHA", False)),
        (_BETA_ON, Gate("BETA", True)),
        (_BETA_OFF, Gate("BETA", False)),
        (_GA_LOCKED, Gate("GA", True, locked=True)),
        (_GA, Gate("GA", True)),
        (_DEPRECATED_ON, Gate("DEPRECATED", True)),
        (_DEPRECATED_OFF, Gate("DEPRECATED", False)),
    )
    gates = {name: gate for names, gate in groups for name in names.split()}
    for name in _DEPRECATED_LOCKED.split():
        gates[name] = Gate("DEPRECATED", gates[name].default, locked=True)
    return gates


#: As they are in 1.36.
KNOWN_GATES = _known()

_STAGES: dict[str, Stage] = {"a": "ALPHA", "b": "BETA", "g": "GA", "d": "DEPRECATED"}


@cache
def gates_at(minor: int) -> Mapping[str, Gate]:
    """All gates as they are in Kubernetes 1.<minor>."""
    if minor > MINORS[-1]:
        return KNOWN_GATES
    column = MINORS.index(max(minor, MINORS[0]))
    earlier = {name: _gate(states.split()[column]) for states, names in EARLIER.items() for name in names.split()}
    return KNOWN_GATES | earlier


def _gate(state: str) -> Gate:
    if state == "-":
        return Gate("PREALPHA", False)
    return Gate(_STAGES[state[0]], state[1] == "+", locked=state.endswith("!"))


#: Switches for whole stages; explicit settings win over them.
STAGE_SWITCHES: dict[str, Stage] = {"AllAlpha": "ALPHA", "AllBeta": "BETA"}

_DRA = "DynamicResourceAllocation"

#: Gate -> the gates that must be on with it.
REQUIRED_GATES: dict[str, tuple[str, ...]] = {
    **{name: (_DRA,) for name in KNOWN_GATES if name.startswith("DRA") and name != "DRAResourceClaimDeviceStatus"},
    "DRADeviceBindingConditions": (_DRA, "DRAResourceClaimDeviceStatus"),
    "DRADeviceTaintRules": (_DRA, "DRADeviceTaints"),
    "ExtendWebSocketsToKubelet": ("NodeDeclaredFeatures",),
    "InPlacePodLevelResourcesVerticalScaling": (
        "InPlacePodVerticalScaling",
        "PodLevelResources",
        "NodeDeclaredFeatures",
    ),
    "InPlacePodVerticalScalingInitContainers": ("NodeDeclaredFeatures",),
    "RestartAllContainersOnContainerExits": ("NodeDeclaredFeatures",),
    "UserNamespacesHostNetworkSupport": ("NodeDeclaredFeatures",),
    **NEEDED_WITH,
}
