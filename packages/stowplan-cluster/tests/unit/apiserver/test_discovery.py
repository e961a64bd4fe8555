"""Discovery documents compared with the catalogue."""

from __future__ import annotations

import itertools

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.kube.kubernetes_versions import OLDEST_VERSION, V1_36, V1_37
from stowplan_cluster.apiserver.discovery import (
    Discovery,
    aggregated,
    api_group,
    api_group_list,
    api_resource_list,
    api_versions,
    version_order,
)
from stowplan_cluster.apiserver.resources import BUILT_IN, Catalogue, Resource, served_in

CATALOGUE = Catalogue(BUILT_IN)
WIDGETS = Resource(group="example.com", version="v1beta1", plural="widgets", kind="Widget", custom=True)


def resources_at(group: str, version: str) -> dict[str, dict]:
    listed = api_resource_list(CATALOGUE, group, version)
    assert listed is not None
    return {entry["name"]: entry for entry in listed["resources"]}


def test_versions_go_from_best_to_worst():
    best_first = ["v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2", "foo1", "foo10"]
    assert sorted(set(best_first), key=version_order) == best_first


@given(st.permutations(["v2", "v1", "v1beta2", "v1beta1", "v2alpha1", "x"]))
def test_the_order_of_versions_does_not_depend_on_their_input_order(versions):
    assert sorted(versions, key=version_order) == ["v2", "v1", "v1beta2", "v1beta1", "v2alpha1", "x"]


def test_the_core_group_is_at_api():
    told = api_versions("127.0.0.1:6443")
    assert told["versions"] == ["v1"]
    assert told["serverAddressByClientCIDRs"] == [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1:6443"}]


def test_groups_come_in_the_order_of_a_cluster_and_custom_ones_last():
    catalogue = Catalogue((WIDGETS, *BUILT_IN))
    names = [group["name"] for group in api_group_list(catalogue)["groups"]]
    assert names[:3] == ["apiregistration.k8s.io", "apps", "events.k8s.io"]
    # As on a cluster, where metrics-server's APIService has the lowest priority.
    assert names[-2:] == ["example.com", "metrics.k8s.io"]
    assert "" not in names


@pytest.mark.parametrize(
    ("kubernetes", "versions"),
    [(V1_36, ["v1alpha2"]), (V1_37, ["v1beta1", "v1alpha3"]), pytest.param(OLDEST_VERSION, ["v1alpha2"])],
)
def test_a_group_prefers_its_best_version(kubernetes, versions):
    told = api_group(served_in(kubernetes), "scheduling.k8s.io")
    assert told == {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": "scheduling.k8s.io",
        "versions": [
            {"groupVersion": "scheduling.k8s.io/v1", "version": "v1"},
            *({"groupVersion": f"scheduling.k8s.io/{version}", "version": version} for version in versions),
        ],
        "preferredVersion": {"groupVersion": "scheduling.k8s.io/v1", "version": "v1"},
    }


@pytest.mark.parametrize("group", ["", "nothing.example.com"])
def test_unknown_groups_have_no_document(group):
    assert api_group(CATALOGUE, group) is None


def test_fields_of_resources():
    assert resources_at("apps", "v1")["deployments"] == {
        "name": "deployments",
        "singularName": "deployment",
        "namespaced": True,
        "kind": "Deployment",
        "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
        "shortNames": ["deploy"],
        "categories": ["all"],
    }


@pytest.mark.parametrize(
    ("group", "name", "expected"),
    [
        ("", "pods/binding", {"kind": "Binding", "verbs": ["create"]}),
        ("", "pods/eviction", {"group": "policy", "version": "v1", "kind": "Eviction", "verbs": ["create"]}),
        ("", "pods/log", {"kind": "Pod", "verbs": ["get"]}),
        ("", "pods/exec", {"kind": "PodExecOptions", "verbs": ["create", "get"]}),
        ("", "pods/status", {"kind": "Pod", "verbs": ["get", "patch", "update"]}),
        ("", "namespaces/finalize", {"kind": "Namespace", "verbs": ["update"], "namespaced": False}),
        (
            "apps",
            "deployments/scale",
            {"group": "autoscaling", "version": "v1", "kind": "Scale", "verbs": ["get", "patch", "update"]},
        ),
    ],
)
def test_subresources_have_kinds_of_their_own(group, name, expected):
    assert resources_at(group, "v1")[name] == {"name": name, "singularName": "", "namespaced": True, **expected}


def test_review_resources_can_only_be_created():
    assert resources_at("authorization.k8s.io", "v1")["selfsubjectaccessreviews"]["verbs"] == ["create"]


@pytest.mark.parametrize("version", ["v2", "v2beta1"])
def test_the_aggregated_form_is_equivalent(version):
    told = {}
    for core in (True, False):
        listed = aggregated(CATALOGUE, core=core, version=version)
        assert listed["apiVersion"] == f"apidiscovery.k8s.io/{version}"
        for group in listed["items"]:
            for entry in group["versions"]:
                told[group["metadata"].get("name", ""), entry["version"]] = entry["resources"]
    for (group, group_version), resources in told.items():
        plain = resources_at(group, group_version)
        for resource in resources:
            name = resource["resource"]
            assert resource["verbs"] == plain[name]["verbs"]
            assert resource["singularResource"] == plain[name]["singularName"]
            assert resource["scope"] == ("Namespaced" if plain[name]["namespaced"] else "Cluster")
            kind = {"group": group, "version": group_version, "kind": plain[name]["kind"]}
            assert resource["responseKind"] == kind
            subresources = {f"{name}/{entry['subresource']}": entry for entry in resource.get("subresources", [])}
            assert subresources.keys() == {path for path in plain if path.startswith(f"{name}/")}
            for path, entry in subresources.items():
                assert entry["verbs"] == plain[path]["verbs"]
                assert entry["responseKind"]["kind"] == plain[path]["kind"]
    count = sum(len(resources) for resources in told.values())
    assert count == len(BUILT_IN)


def test_documents_are_cached_until_the_catalogue_changes():
    catalogue = Catalogue(BUILT_IN)
    discovery = Discovery(catalogue)
    before = discovery.aggregated(core=False, version="v2")
    assert discovery.aggregated(core=False, version="v2") is before
    catalogue.add(WIDGETS)
    after = discovery.aggregated(core=False, version="v2")
    assert before.etag != after.etag
    assert b'"widgets"' in after.body
    catalogue.remove(WIDGETS)
    assert discovery.aggregated(core=False, version="v2") == before


def test_unknown_groups_are_not_cached():
    discovery = Discovery(Catalogue(BUILT_IN))
    for number in itertools.islice(itertools.count(), 50):
        assert discovery.group(f"group-{number}") is None
        assert discovery.resources(f"group-{number}", "v1") is None
    assert discovery._documents == {}


def test_every_document_is_json():
    discovery = Discovery(CATALOGUE)
    for found in (discovery.api("a:1"), discovery.groups(), discovery.group("apps"), discovery.resources("", "v1")):
        assert found is not None
        assert msgspec.json.decode(found.body)["kind"].startswith("API")
        assert found.etag.startswith('"')
