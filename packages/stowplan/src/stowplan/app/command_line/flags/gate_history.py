"""Feature gates before 1.36, for --emulated-version.

Observed from kube-scheduler 1.36 itself, emulating each version: `kubernetes_feature_enabled` of its metrics, and the
gates that it refuses to set.
"""

from __future__ import annotations

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
