"""The scale subresource of built-in kinds."""

import pytest

from stowplan.kube.api.api_errors import BadRequest, Conflict, Invalid, NotFound
from stowplan_cluster.apiserver.registry import Options
from stowplan_cluster.apiserver.scale import scale_of, set_scale
from support.api.embedded import Api, pod


@pytest.fixture
def api():
    api = Api()
    spec = {
        "replicas": 2,
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod()["spec"]},
    }
    api.create("deployments.apps", {"metadata": {"name": "d", "namespace": "default"}, "spec": spec})
    return api


def read(api):
    resource = api.resource("deployments.apps")
    return scale_of(api.registry, resource, api.registry.get(resource, "default", "d"))


def write(api, scale, name="d", storage="deployments.apps"):
    return set_scale(api.registry, api.resource(storage), "default", name, scale, options=Options())


def test_reads_replicas_and_selector(api):
    scale = read(api)
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert (scale["spec"], scale["status"]) == ({"replicas": 2}, {"replicas": 0, "selector": "a=b"})


def test_a_replication_controller_selects_by_a_plain_map(api):
    template = {"metadata": {"labels": {"a": "b", "c": "d"}}, "spec": pod()["spec"]}
    spec = {"replicas": 1, "selector": {"c": "d", "a": "b"}, "template": template}
    stored = api.create("replicationcontrollers", {"metadata": {"name": "r", "namespace": "default"}, "spec": spec})
    scale = scale_of(api.registry, api.resource("replicationcontrollers"), stored)
    assert scale["status"] == {"replicas": 0, "selector": "a=b,c=d"}


def test_writes_replicas(api):
    assert write(api, {"spec": {"replicas": 5}})["spec"] == {"replicas": 5}
    obj = api.get("deployments.apps", "default", "d")
    assert (obj["spec"]["replicas"], obj["metadata"]["generation"]) == (5, 2)
    assert write(api, {"spec": {}})["spec"] == {"replicas": 0}


def test_an_old_version_is_refused(api):
    scale = read(api)
    write(api, {"spec": {"replicas": 5}})
    with pytest.raises(Conflict, match="the object has been modified"):
        write(api, {**scale, "spec": {"replicas": 1}})


@pytest.mark.parametrize("replicas", [-1, "3", True, 2**31])
def test_invalid_numbers(api, replicas):
    with pytest.raises((Invalid, BadRequest), match=r"^Scale.*spec\.replicas"):
        write(api, {"spec": {"replicas": replicas}})


def test_another_kind_is_refused(api):
    with pytest.raises(BadRequest, match="takes kind Scale"):
        write(api, {"kind": "Pod", "spec": {"replicas": 1}})


def test_kinds_without_scale(api):
    api.create("configmaps", {"metadata": {"name": "d", "namespace": "default"}})
    with pytest.raises(NotFound):
        write(api, {"spec": {"replicas": 1}}, storage="configmaps")
