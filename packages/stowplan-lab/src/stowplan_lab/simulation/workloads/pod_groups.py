"""A PodGroup per arrival: a gang of the pods that arrive together, or of a Job's."""

from __future__ import annotations

from msgspec.structs import replace

from stowplan.kube.api.decode import convert
from stowplan.kube.api.pod import PodSchedulingGroup
from stowplan.kube.api.types import PodGroup
from stowplan_lab.simulation.workloads.owners import Template

#: Kinds whose arrivals may have one.
GROUPED = ("Pod", "Job")


def of_group(template: Template, name: str, each: int) -> tuple[PodGroup | None, Template]:
    """The PodGroup of an arrival of `each` pods or of a Job, and the template of its pods; raises DecodeError."""
    if template.pod_group is None:
        return None, template
    pod, pods = template.pod, each if template.job is None else template.job.spec.parallelism
    spec = {"schedulingPolicy": {"gang": {"minCount": pods}}, "priority": pod.spec.priority, **template.pod_group}
    group = convert(
        {
            "apiVersion": "scheduling.k8s.io/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": name, "namespace": pod.metadata.namespace, "uid": f"{template.workload}/{name}"},
            "spec": spec,
        },
        PodGroup,
    )
    member = replace(pod, spec=replace(pod.spec, scheduling_group=PodSchedulingGroup(pod_group_name=name)))
    return group, replace(template, pod=member)
