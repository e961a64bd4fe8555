"""The custom resources of gangs and quotas, and the label by which pods join a gang."""

from collections.abc import Iterable

from stowplan.plugins import CustomObject, custom_resource

PodGroup = custom_resource("podgroups.v1alpha1.scheduling.x-k8s.io")
ElasticQuota = custom_resource("elasticquotas.v1alpha1.scheduling.x-k8s.io")
LABEL = "scheduling.x-k8s.io/pod-group"


def by_age(quotas: Iterable[CustomObject]) -> list[CustomObject]:
    """Quotas of a namespace: the first one counts."""
    return sorted(quotas, key=lambda quota: (quota.metadata.creation_timestamp or "", quota.metadata.name))
