"""The custom resources of gangs and quotas, and the label by which pods join a gang."""

from stowplan.plugins import custom_resource

PodGroup = custom_resource("podgroups.v1alpha1.scheduling.x-k8s.io")
ElasticQuota = custom_resource("elasticquotas.v1alpha1.scheduling.x-k8s.io")
LABEL = "scheduling.x-k8s.io/pod-group"
