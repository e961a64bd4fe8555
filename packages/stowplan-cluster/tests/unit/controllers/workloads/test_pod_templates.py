import pytest

from stowplan.kube.api.meta import ObjectMeta
from stowplan_cluster.controllers.workloads.pod_templates import (
    ALPHABET,
    POD_TEMPLATE_HASH,
    generate_name_of,
    hash_of,
    new_pod,
    same_template,
)
from stowplan_cluster.reconcile.views import ReplicaSet

CONTAINER = {"name": "main", "image": "app:1"}
TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [CONTAINER]}}


@pytest.mark.parametrize(
    ("other", "same"),
    [
        pytest.param(TEMPLATE, True, id="itself"),
        pytest.param(
            {"spec": {"containers": [{"image": "app:1", "name": "main"}]}, "metadata": {"labels": {"app": "web"}}},
            True,
            id="in another order",
        ),
        pytest.param(
            {**TEMPLATE, "metadata": {"labels": {"app": "web", POD_TEMPLATE_HASH: "x"}}}, True, id="with a hash"
        ),
        pytest.param(
            {**TEMPLATE, "metadata": {"labels": {"app": "web"}, "creationTimestamp": None, "annotations": {}}},
            True,
            id="with nulls and empty maps",
        ),
        pytest.param({**TEMPLATE, "spec": {"containers": [{**CONTAINER, "env": []}]}}, True, id="with an empty list"),
        pytest.param({**TEMPLATE, "metadata": {"labels": {"app": "db"}}}, False, id="another label"),
        pytest.param({**TEMPLATE, "spec": {"containers": [{**CONTAINER, "image": "app:2"}]}}, False, id="image"),
        pytest.param(
            {**TEMPLATE, "spec": {"containers": [CONTAINER], "securityContext": {}}}, False, id="an empty struct"
        ),
    ],
)
def test_equality_of_templates(other, same):
    assert same_template(TEMPLATE, other) is same


def test_hashes_are_stable_and_have_no_vowels():
    hashed = hash_of(TEMPLATE)
    assert hashed == hash_of({"spec": TEMPLATE["spec"], "metadata": {**TEMPLATE["metadata"], "annotations": {}}})
    assert set(hashed) <= set(ALPHABET)
    assert len({hashed, hash_of(TEMPLATE, 1), hash_of(TEMPLATE, 2)}) == 3


def test_a_pod_does_not_alias_its_template():
    owner = ReplicaSet(kind="ReplicaSet", metadata=ObjectMeta(name="web", namespace="default", uid="1"))
    pod = new_pod(owner, TEMPLATE)
    (reference,) = pod["metadata"].pop("ownerReferences")
    assert (reference["kind"], reference["uid"], reference["controller"]) == ("ReplicaSet", "1", True)
    assert pod["metadata"] == {"namespace": "default", "generateName": "web-", "labels": {"app": "web"}}
    pod["metadata"]["labels"]["app"] = "db"
    pod["spec"]["containers"][0]["image"] = "app:2"
    assert TEMPLATE == {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [CONTAINER]}}
    assert CONTAINER["image"] == "app:1"


@pytest.mark.parametrize(("owner", "prefix"), [("web", "web-"), ("w" * 252, "w" * 252 + "-"), ("w" * 253, "w" * 253)])
def test_name_prefixes(owner, prefix):
    assert generate_name_of(owner) == prefix
