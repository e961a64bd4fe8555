"""Fields that came with 1.37: kept and checked, and dropped by a cluster of 1.36."""

from copy import deepcopy

import pytest

from stowplan.kube.api.api_errors import Invalid
from stowplan.kube.kubernetes_versions import V1_36, V1_37
from stowplan_cluster.apiserver.schema import conform, drop_newer, schema_of
from support.api.embedded import Api

NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": {}}

SLICES, CLAIMS = "resourceslices.resource.k8s.io", "resourceclaims.resource.k8s.io"
DERIVED = "spec.devices.requests[0].exactly.derivedAttributes[0]"


def node(*owners):
    return NODE | {"spec": {"podPreemptionPolicy": {"disableResizePreemption": list(owners)}}}


def pod(*options):
    mount = {"name": "v", "mountPath": "/v", "bindMountOptions": list(options)}
    container = {"name": "c", "image": "i", "volumeMounts": [mount]}
    spec = {"containers": [container], "volumes": [{"name": "v", "emptyDir": {}}]}
    metadata = {"name": "p", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def a_slice(*groups, **spec):
    consumed = {"counterSet": "s", "counters": {"c": {"value": "1"}}, "compatibilityGroups": list(groups)}
    device = {"name": "d", "consumesCounters": [consumed]}
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 2}
    spec = {"driver": "d.example.com", "pool": pool, "nodeName": "n", "devices": [device], **spec}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": spec}


def a_claim(*derived, used="derived/a"):
    attributes = [{"name": name, "expression": expression} for name, expression in derived]
    request = {"deviceClassName": "gpu", "derivedAttributes": attributes}
    devices = {"requests": [{"name": "r", "exactly": request}], "constraints": [{"matchAttribute": used}]}
    metadata = {"name": "c", "namespace": "default"}
    return {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata, "spec": {"devices": devices}
    }  # fmt: skip


@pytest.mark.parametrize(
    ("resource", "obj", "field"),
    [
        ("nodes", node("a.example.com/b", "c"), ""),
        ("nodes", node("not valid!"), "spec.podPreemptionPolicy.disableResizePreemption[0]"),
        ("nodes", node("a", "a"), "spec.podPreemptionPolicy.disableResizePreemption[1]"),
        ("nodes", node(*map(str, range(21))), "spec.podPreemptionPolicy.disableResizePreemption"),
        ("pods", pod("noexec", "nosuid"), ""),
        ("pods", pod("exec"), "spec.containers[0].volumeMounts.bindMountOptions[0]"),
        (SLICES, a_slice("a", "b", skipNodeOperations=["*", "NodePrepareResources"]), ""),
        (SLICES, a_slice("a", "b", "c"), "spec.devices[0].consumesCounters[0].compatibilityGroups"),
        (SLICES, a_slice("a", "a"), "spec.devices[0].consumesCounters[0].compatibilityGroups[1]"),
        (SLICES, a_slice(skipNodeOperations=["NodePrepareResources"]), "spec.skipNodeOperations"),
        (SLICES, a_slice(skipNodeOperations=["Sleep"]), "spec.skipNodeOperations[0]"),
        (CLAIMS, a_claim(("derived/a", "device.driver")), ""),
        (CLAIMS, a_claim(("a", "1"), used="a/a"), DERIVED + ".name"),
        (CLAIMS, a_claim(("derived/b", "1")), DERIVED + ".name"),
        (CLAIMS, a_claim(("derived/a", "1 +")),
         DERIVED + ".expression"),
    ],
)  # fmt: skip
def test_fields(resource, obj, field):
    api = Api()
    if field:
        with pytest.raises(Invalid) as caught:
            api.create(resource, obj)
        assert f"{field}: " in str(caught.value)
        return
    made = api.create(resource, obj).to_dict()
    schema = schema_of(api.resource(resource))
    assert drop_newer(schema, deepcopy(made), V1_37) == []
    assert drop_newer(schema, made, V1_36)
    assert conform(schema, made) == []
    older = Api(version=V1_36)
    assert drop_newer(schema, older.create(resource, obj).to_dict(), V1_36) == []
