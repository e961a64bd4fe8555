"""All feature gates of Kubernetes: their stage and default in each version that the scheduler can behave as.

A scheduler reads a few of them; `--feature-gates` accepts all, as clusters pass the same list to every component, and
rejects unknown ones. Those up to 1.36 were observed from kube-scheduler 1.36 itself, emulating each version:
`kubernetes_feature_enabled` of its metrics, and the gates that it refuses to set. In 1.37, the gates of the scheduler
are those of its source; those that only other components read are taken over from 1.36.

For the next version, append a column to each row; rows that get different states are split. The first column goes when
the oldest version does.

Upstream: pkg/features/kube_features.go and the libraries' own lists.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Literal

from stowplan.kube.kubernetes_versions import BINARY_VERSION, OLDEST_VERSION, V1_37, KubernetesVersion
from stowplan.kube.structs import PlainStruct

#: One word per version, from OLDEST_VERSION to BINARY_VERSION -> the gates with this history. "-": does not exist yet;
#: a, b, g, d: alpha, beta, GA, deprecated; +, -: on, off by default; "!": locked; x: removed.
HISTORIES = {
    "- - - a-": """
        CompositePodGroup DRADerivedAttributes DRADeviceCompatibilityGroups DRAOptionalNodeOperations
        InPlacePodVerticalScalingSchedulerPreemption InterPodAffinityHostnameFastPath PodGroupPreemptionPolicy
        SchedulerPreQueueingHints
    """,
    "- - a- a-": """
        CRIListStreaming DRAListTypeAttributes DRANodeAllocatableResources DRAResourcePoolStatus
        ManifestBasedAdmissionControlConfig NativeHistograms PersistentVolumeClaimUnusedSinceTime
        PodLevelResourceManagers PodsAPI ShardedListAndWatch TopologyAwareWorkloadScheduling WorkloadWithJob
    """,
    "- a- a- a-": """
        CloudControllerManagerWatchBasedRoutesReconciliation ImageVolumeWithDigest MutablePVNodeAffinity
        TaintTolerationComparisonOperators UserNamespacesHostNetworkSupport
    """,
    "a- a- a- a-": """
        APIServingWithRoutine AllAlpha AllowUnsafeMalformedObjectDeletion CBORServingAndStorage
        CPUManagerPolicyAlphaOptions CSIVolumeHealth ClientsAllowCBOR ClientsPreferCBOR CloudControllerManagerWebhook
        ContainerStopSignals CrossNamespaceVolumeDataSource EventedPLEG HPAScaleToZero
        InPlacePodVerticalScalingExclusiveCPUs InPlacePodVerticalScalingExclusiveMemory KubeletInUserNamespace
        LoggingAlphaOptions MemoryQoS PodAndContainerStatsFromCRI PodLogsQuerySplitStreams QOSReserved
        ReduceDefaultCrashLoopBackOffDecay RuntimeClassInImageCriApi StorageVersionAPI
        TopologyManagerPolicyAlphaOptions WindowsCPUAndMemoryAffinity
    """,
    "- a- a- b+": "VolumeLimitScaling",
    "a- a- a- b+": "StorageCapacityScoring",
    "- - b+ b+": """
        AtomicFIFO ClientsAllowCARotation ClientsAllowTLSCacheGC DRAResourceClaimGranularStatusAuthorization
        DeclarativeValidationBeta ExtendWebSocketsToKubelet InPlacePodVerticalScalingInitContainers
        PLEGOnDemandRelist ReloadKubeletClientCAFile ResourceHealthStatusMessage StaleControllerConsistencyDaemonSet
        StaleControllerConsistencyJob StaleControllerConsistencyReplicaSet StaleControllerConsistencyStatefulSet
        UnlockWhileProcessingFIFO
    """,
    "- a- b+ b+": """
        ConstrainedImpersonation InPlacePodLevelResourcesVerticalScaling MutablePodResourcesForSuspendedJobs
        MutableSchedulingDirectivesForSuspendedJobs RestartAllContainersOnContainerExits
    """,
    "a- a- b+ b+": """
        ComponentFlagz ComponentStatusz DRAConsumableCapacity DRADeviceBindingConditions DRAPartitionableDevices
        RelaxedServiceNameValidation ResourceHealthStatus StrictIPCIDRValidation UnknownVersionInteroperabilityProxy
    """,
    "- b+ b+ b+": """
        AuthorizePodWebsocketUpgradeCreatePermission InOrderInformersBatchProcess OpportunisticBatching
        StructuredAuthenticationConfigurationJWKSMetrics
    """,
    "a- b+ b+ b+": """
        ClearingNominatedNodeNameAfterBinding ContainerRestartRules DeploymentReplicaSetTerminatingReplicas EnvFiles
        HPAConfigurableTolerance HostnameOverride KubeletCrashLoopBackOffMax KubeletEnsureSecretPulledImages
        NominatedNodeNameForExpectation PodTopologyLabelsAdmission
    """,
    "b+ b+ b+ b+": """
        APIResponseCompression APIServerIdentity AllowParsingUserUIDFromCertAuth CPUManagerPolicyBetaOptions
        ContainerCheckpoint ContextualLogging DRASchedulerFilterTimeout DetectCacheInconsistency GracefulNodeShutdown
        GracefulNodeShutdownBasedOnPodPriority KubeletSeparateDiskGC KubeletServiceAccountTokenForCredentialProviders
        ListFromCacheSnapshot LoggingBetaOptions MatchLabelKeysInPodTopologySpread
        MatchLabelKeysInPodTopologySpreadSelectorMerge OpenAPIEnums PodDeletionCost PodLevelResources
        PodReadyToStartContainersCondition PortForwardWebsockets PreventStaticPodAPIReferences
        ReloadKubeletServerCertificateFile RemoteRequestHeaderUID RotateKubeletServerCertificate
        SchedulerAsyncPreemption SchedulerPopFromBackoffQ ServiceAccountNodeAudienceRestriction
        SizeBasedListCostEstimate StatefulSetSemanticRevisionComparison StorageVersionHash
        StructuredAuthenticationConfigurationEgressSelector TokenRequestServiceAccountUIDValidation
        TopologyManagerPolicyBetaOptions TranslateStreamCloseWebsocketRequests UnauthenticatedHTTP2DOSMitigation
        WatchList WindowsGracefulNodeShutdown
    """,
    "b- b+ b+ b+": "WatchListClient",
    "- b- b+ b+": "CRDObservedGenerationTracking",
    "b- b- b+ b+": "WatchCacheInitializationPostStartHook",
    "- - - b-": "DRAFractionalCapacityRange",
    "- - a- b-": "DRAWorkloadResourceClaims",
    "- a- a- b-": "GenericWorkload",
    "a- b- b- b-": "MaxUnavailableStatefulSet PodCertificateRequest StorageVersionMigrator",
    "b- b- b- b-": """
        AllBeta ClusterTrustBundle ClusterTrustBundleProjection ConcurrentWatchObjectDecode CoordinatedLeaderElection
        LocalStorageCapacityIsolationFSQuotaMonitoring SELinuxMount SchedulerAsyncAPICalls
    """,
    "a- a- b+ g+": "DRADeviceTaints",
    "- a- b- g+": "DRADeviceTaintRules",
    "a- a- g+ g+": "CustomCPUCFSQuotaPeriod",
    "b- b- g+ g+": "MutatingAdmissionPolicy",
    "a- g+ g+ g+": "InformerResourceVersion",
    "g+ g+ g+ g+": "AllowServiceExternalIPs",
    "- a- b+ g+!": "NodeDeclaredFeatures",
    "a- a- b+ g+!": "DRAExtendedResource",
    "b+ b+ b+ g+!": "DRAResourceClaimDeviceStatus",
    "b+ b+ g+ g+!": "DRAPrioritizedList",
    "- b+ g+! g+!": "CSIServiceAccountTokenSecrets",
    "b+ b+ g+! g+!": """
        DRAAdminAccess DeclarativeValidation ExternalServiceAccountTokenSigner InOrderInformers
        KubeletFineGrainedAuthz KubeletPSI KubeletPodResourcesDynamicResources KubeletPodResourcesGet NodeLogQuery
        ProcMountType SELinuxChangePolicy SELinuxMountReadWriteOncePod UserNamespacesSupport
    """,
    "b- b+ g+! g+!": "ImageVolume MutableCSINodeAllocatableCount",
    "g+ g+ g+! g+!": "VolumeAttributesClass",
    "b+ g+! g+! g+!": """
        ImageMaximumGCAge InPlacePodVerticalScaling JobManagedBy PodObservedGenerationTracking
        PreferSameTrafficDistribution SupplementalGroupsPolicy SystemdWatchdog
    """,
    "g+ g+! g+! g+!": "DisableAllocatorDualWrite DynamicResourceAllocation ExecProbeTimeout",
    "g+! g+! g+! g+!": """
        APIServerTracing AnonymousAuthConfigurableEndpoints AuthorizeNodeWithSelectors AuthorizeWithSelectors
        BtreeWatchCache CPUManagerPolicyOptions CRDValidationRatcheting ConsistentListFromCache
        CustomResourceFieldSelectors JobBackoffLimitPerIndex JobPodReplacementPolicy JobSuccessPolicy
        KubeletCgroupDriverFromCRI KubeletTracing LogarithmicScaleDown MatchLabelKeysInPodAffinity
        MultiCIDRServiceAllocator NFTablesProxyMode NodeInclusionPolicyInPodTopologySpread NodeSwap
        OrderedNamespaceDeletion PodLifecycleSleepAction PodLifecycleSleepActionAllowZero PodSchedulingReadiness
        RecoverVolumeExpansionFailure RecursiveReadOnlyMounts RelaxedEnvironmentVariableValidation
        ResilientWatchCacheInitialization RetryGenerateName SeparateTaintEvictionController ServiceAccountTokenJTI
        ServiceAccountTokenNodeBinding ServiceAccountTokenNodeBindingValidation ServiceAccountTokenPodNodeInfo
        SidecarContainers StreamingCollectionEncodingToJSON StreamingCollectionEncodingToProtobuf
        StructuredAuthenticationConfiguration TopologyManagerPolicyOptions WinDSR WinOverlay
    """,
    "b+ b+ d+ d+": "DisableCPUQuotaWithExclusiveCPUs",
    "g- g- d+ d+": "ServiceCIDRStatusFieldWiping",
    "d+ d+ d+ d+": "KubeletPodResourcesListUseActivePods StorageNamespaceIndex",
    "d+ d+ d+! d+!": "DisableNodeKubeProxyVersion",
    "d+ d+! d+! d+!": "AggregatedDiscoveryRemoveBetaType",
    "b- b- d- d-": "DeclarativeValidationTakeover",
    "g+ d- d- d-": "ChangeContainerStatusOnKubeletRestart",
    "d- d- d- d-": """
        AllowDNSOnlyNodeCSR AllowInsecureKubeletCertificateSigningRequests KMSv1 KubeletRegistrationGetOnExistsOnly
        WindowsHostNetwork
    """,
    "d- d- d-! d-!": "GitRepoVolumeDriver SeparateCacheWatchRPC",
    "d- d-! d-! d-!": "AllowOverwriteTerminationGracePeriodSeconds",
    "- - a- x": "WorkloadAwarePreemption",
    "- a- a- x": "GangScheduling",
    "g+! g+! g+! x": "AnyVolumeDataSource RelaxedDNSSearchValidation SchedulerQueueingHints",
}

#: Gates whose default changes with the minimum compatibility version instead -> the one from which they are on.
ON_WITH_MIN_COMPATIBILITY = {"DRAFractionalCapacityRange": V1_37}

Stage = Literal["PREALPHA", "ALPHA", "BETA", "GA", "DEPRECATED"]
_STAGES: dict[str, Stage] = {"a": "ALPHA", "b": "BETA", "g": "GA", "d": "DEPRECATED"}


class Gate(PlainStruct, frozen=True):
    stage: Stage
    default: bool
    locked: bool = False


@cache
def gates_at(emulated: KubernetesVersion, min_compatibility: KubernetesVersion | None = None) -> Mapping[str, Gate]:
    """All gates of a version, with those of later versions in the stage PREALPHA.

    Without `min_compatibility`, it is below any that matters.
    """
    # Out of range: the command line refuses the version later, in the reference's order.
    column = min(max(emulated, OLDEST_VERSION), BINARY_VERSION).minor - OLDEST_VERSION.minor
    found: dict[str, Gate] = {}
    for states, names in HISTORIES.items():
        state = states.split()[column]
        if state != "x":
            found.update(dict.fromkeys(names.split(), _gate(state)))
    for name, least in ON_WITH_MIN_COMPATIBILITY.items():
        if min_compatibility is not None and min_compatibility >= least and found[name].stage != "PREALPHA":
            found[name] = Gate(found[name].stage, True)
    return MappingProxyType(found)


def _gate(state: str) -> Gate:
    if state == "-":
        return Gate("PREALPHA", False)
    return Gate(_STAGES[state[0]], state[1] == "+", locked=state.endswith("!"))
