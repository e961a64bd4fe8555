"""Fields of manifests that an API server would set."""

from __future__ import annotations

import pytest

from stowplan.ask.loading.admission import admit
from stowplan.kube.api.decode import decode_object
from stowplan.kube.api.types import PersistentVolumeClaim

CLASSES = "storageclass.kubernetes.io/is-default-class"


def a_class(name, created, *, default=True):
    metadata = {"name": name, "creationTimestamp": created, "annotations": {CLASSES: "true" if default else "false"}}
    return decode_object({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": metadata})


def a_claim(annotations=None, **spec):
    metadata = {"name": "data", "namespace": "shop", "annotations": annotations or {}}
    return decode_object({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec})


def class_of(claim, *classes):
    (found,) = (obj for obj in admit((*classes, claim)).objects if isinstance(obj, PersistentVolumeClaim))
    return found.spec.storage_class_name


OLD, NEW, TIED = (
    a_class("old", "2026-01-01T00:00:00Z"),
    a_class("b", "2026-02-01T00:00:00Z"),
    a_class("a", "2026-02-01T00:00:00Z"),
)


def test_a_claim_without_a_class_gets_the_newest_default():
    assert class_of(a_claim(), OLD, NEW, a_class("later", "2026-03-01T00:00:00Z", default=False)) == "b"
    assert class_of(a_claim(), OLD, NEW, TIED) == "a", "ties are not broken by name"


@pytest.mark.parametrize(
    "claim",
    [
        a_claim(storageClassName="fast"),
        a_claim(storageClassName=""),
        a_claim({"pv.kubernetes.io/bind-completed": "yes"}, volumeName="v"),
        a_claim({"volume.beta.kubernetes.io/storage-class": "fast"}),
    ],
)
def test_claims_with_a_class_or_bound_ones_are_unchanged(claim):
    assert class_of(claim, OLD) == claim.spec.storage_class_name


def test_without_a_default_class():
    assert class_of(a_claim(), a_class("other", None, default=False)) is None
