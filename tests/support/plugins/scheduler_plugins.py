"""The custom resources of scheduler-plugins, as objects."""

GROUP = "scheduling.x-k8s.io"


def _definition(plural, kind):
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": {"kind": kind, "plural": plural},
            "scope": "Namespaced",
            "versions": [{"name": "v1alpha1", "served": True, "storage": True}],
        },
    }


DEFINITIONS = _definition("podgroups", "PodGroup"), _definition("elasticquotas", "ElasticQuota")


def custom(kind, name, namespace=None, **spec):
    """By default its namespace has its name."""
    metadata = {"name": name, "namespace": namespace or name}
    return {"apiVersion": f"{GROUP}/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}
