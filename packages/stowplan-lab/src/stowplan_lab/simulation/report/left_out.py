"""What a simulation does not model; reports and the documentation have the same list."""

#: In Markdown, as in docs/use/simulate.md.
LEFT_OUT = (
    "Actual resource usage, except for what autoscalers measure: to the scheduler, a pod uses what it requests.",
    "CronJobs of the initial cluster.",
    "`podFailurePolicy`, `successPolicy` and `backoffLimitPerIndex` of Jobs.",
    "Updates that are in progress in the initial cluster: they count as complete.",
    "`persistentVolumeClaimRetentionPolicy` of StatefulSets: claims are kept.",
    "ResourceClaims that are made from templates for the pods of workloads.",
    "Attaching and resizing volumes, failures of provisioners, and finalizers that protect volumes in use.",
    "Admission by webhooks, policies and PodSecurity; the limits of LimitRanges for claims.",
    "Changes of ResourceQuotas, LimitRanges, classes and budgets during a simulation.",
    "How the autoscaler would anticipate the spreading of pods over new nodes: pods that are still unschedulable when"
    " the nodes exist are evaluated again.",
    "Zones in the eviction of pods: taints are neither rate-limited nor held back when a whole zone is down.",
    "Events, managed fields, and reports of Deployments such as their progress deadline.",
)
