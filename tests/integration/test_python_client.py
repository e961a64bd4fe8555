"""The official Python client lists, watches, binds, patches, evicts and leases."""

import json

import pytest
from kubernetes import client, config, watch
from kubernetes.client.exceptions import ApiException

from support.api import manifests


@pytest.fixture(scope="session")
def api_client(api_server):
    with config.new_client_from_config(str(api_server.kubeconfig)) as made:
        # Its pool would outlive the test and cause a warning.
        yield made
        made.rest_client.pool_manager.clear()


@pytest.fixture
def core(api_client):
    return client.CoreV1Api(api_client)


@pytest.fixture
def node(core, namespace):
    name = f"node-{namespace}"
    core.create_node(manifests.node(name))
    yield name
    core.delete_node(name)


def test_creates_lists_and_pages(core, namespace):
    for number in range(5):
        core.create_namespaced_pod(namespace, manifests.pod(f"web-{number}", labels={"app": "web"}))
    first = core.list_namespaced_pod(namespace, limit=2, label_selector="app=web")
    assert [pod.metadata.name for pod in first.items] == ["web-0", "web-1"]
    core.delete_namespaced_pod("web-3", namespace, grace_period_seconds=0)
    rest = core.list_namespaced_pod(namespace, limit=9, label_selector="app=web", _continue=first.metadata._continue)
    assert [pod.metadata.name for pod in rest.items] == ["web-2", "web-3", "web-4"], "one version for all pages"
    assert len(core.list_namespaced_pod(namespace).items) == 4


def test_watches_from_a_version(core, namespace):
    version = core.list_namespaced_config_map(namespace).metadata.resource_version
    core.create_namespaced_config_map(namespace, manifests.config_map("a", k="1"))
    core.patch_namespaced_config_map("a", namespace, {"data": {"k": "2"}})
    core.create_namespaced_config_map(namespace, manifests.config_map("b"))
    core.delete_namespaced_config_map("a", namespace)
    stream = watch.Watch().stream(
        core.list_namespaced_config_map,
        namespace,
        resource_version=version,
        timeout_seconds=2,
        field_selector="metadata.name=a",
    )
    seen = [(event["type"], event["object"].data) for event in stream]
    assert seen == [("ADDED", {"k": "1"}), ("MODIFIED", {"k": "2"}), ("DELETED", {"k": "2"})]


def test_binds_once(core, namespace, node):
    core.create_namespaced_pod(namespace, manifests.pod())
    target = client.V1ObjectReference(kind="Node", name=node)
    binding = client.V1Binding(metadata=client.V1ObjectMeta(name="web"), target=target)
    core.create_namespaced_pod_binding("web", namespace, binding, _preload_content=False).close()
    pod = core.read_namespaced_pod("web", namespace)
    assert pod.spec.node_name == node
    (condition,) = (one for one in pod.status.conditions if one.type == "PodScheduled")
    assert condition.status == "True"
    with pytest.raises(ApiException) as raised:
        core.create_namespaced_pod_binding("web", namespace, binding, _preload_content=False)
    assert raised.value.status == 409
    assert f'already assigned to node "{node}"' in json.loads(raised.value.body)["message"]
    core.delete_namespaced_pod("web", namespace, grace_period_seconds=0)


def test_evicts(core, namespace):
    core.create_namespaced_pod(namespace, manifests.pod())
    eviction = client.V1Eviction(metadata=client.V1ObjectMeta(name="web", namespace=namespace))
    core.create_namespaced_pod_eviction("web", namespace, eviction, _preload_content=False).close()
    with pytest.raises(ApiException) as raised:
        core.read_namespaced_pod("web", namespace)
    assert raised.value.status == 404


def test_custom_objects(api_client, namespace):
    group = f"{namespace}.example.com"
    definitions, objects = client.ApiextensionsV1Api(api_client), client.CustomObjectsApi(api_client)
    definitions.create_custom_resource_definition(manifests.definition(group))
    try:
        widget = {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"color": "red"}}
        made = _when_served(lambda: objects.create_namespaced_custom_object(group, "v1", namespace, "widgets", widget))
        assert made["spec"]["size"] == 3
        objects.patch_namespaced_custom_object_status(
            group, "v1", namespace, "widgets", "w", {"status": {"replicas": 2}, "spec": {"size": 9}}
        )
        found = objects.get_namespaced_custom_object(group, "v1", namespace, "widgets", "w")
        assert (found["status"]["replicas"], found["spec"]["size"]) == (2, 3)
    finally:
        definitions.delete_custom_resource_definition(f"widgets.{group}")


def _when_served(create):
    """A real server serves a new kind after a delay."""
    for attempt in range(200):
        try:
            return create()
        except ApiException as error:
            if error.status != 404 or attempt == 199:
                raise
    raise AssertionError("unreachable")
