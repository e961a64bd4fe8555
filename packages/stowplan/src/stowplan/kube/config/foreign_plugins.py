"""Plugins of other projects that published configurations name.

They are written in Go and compiled into those projects' own schedulers. A user of such a configuration should be told
so, and what to do, instead of that the plugin does not exist.
"""

_SCHEDULER_PLUGINS = "scheduler-plugins (sigs.k8s.io/scheduler-plugins)"
_KOORDINATOR = "Koordinator"

_PROJECTS = {
    _SCHEDULER_PLUGINS: """
        CapacityScheduling Coscheduling CrossNodePreemption Diktyo LoadVariationRiskBalancing LowRiskOverCommitment
        NetworkOverhead NodeMetadata NodeResourceTopologyMatch NodeResourcesAllocatable Peaks PodState
        PreemptionToleration QOSSort SySched TargetLoadPacking TopologicalSort
    """,
    _KOORDINATOR: """
        Coscheduling DefaultPreBind DeviceShare ElasticQuota LoadAwareScheduling NetworkTopology NodeNUMAResource
        NodeResourcesFitPlus Preemption Reservation ScarceResourceAvoidance SchedulingHint
    """,
    "Apache YuniKorn": "YuniKornPlugin",
    "the Alibaba Cloud GPU sharing extender": "GPUShare Gpushare",
    "HAMi": "HAMi",
    "Crane": "Dynamic NodeResourceTopology",
    "Katalyst": "QoSAwareNodeResourcesBalancedAllocation QoSAwareNodeResourcesFit",
}

#: Plugin -> projects that have one of that name.
FOREIGN_PLUGINS: dict[str, tuple[str, ...]] = {}
for _project, _names in _PROJECTS.items():
    for _name in _names.split():
        FOREIGN_PLUGINS[_name] = (*FOREIGN_PLUGINS.get(_name, ()), _project)
