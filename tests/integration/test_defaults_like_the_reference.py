"""Cron jobs, autoscalers and quotas read back as from a real kube-apiserver, with its defaults."""

import json
from copy import deepcopy

import pytest

from stowplan_cluster.apiserver.api_server import ApiServer
from stowplan_cluster.apiserver.resources import BUILT_IN
from support.api import wrong_manifests
from support.processes.servers import assets, real_server

pytestmark = pytest.mark.skipif(assets() is None, reason="KUBEBUILDER_ASSETS names no kube-apiserver")


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    with real_server(tmp_path_factory.mktemp("server"), assets()) as server:
        yield server


def stored_here(manifest):
    server = ApiServer()
    found = next(one for one in BUILT_IN if (one.api_version, one.kind) == (manifest["apiVersion"], manifest["kind"]))
    stored = server.registry.create(found, "default" if found.namespaced else "", deepcopy(manifest))
    return server.registry.to_dict(found, stored)


def without_what_the_server_sets(obj):
    return {key: value for key, value in obj.items() if key not in ("metadata", "status")}


@pytest.mark.parametrize("name", wrong_manifests.GOOD)
def test_defaults(reference, name):
    created = reference.kubectl(
        "create", "--dry-run=server", "-n", "default", "-f", "-", "-o", "json", stdin=[wrong_manifests.GOOD[name]]
    )
    theirs = json.loads(created.stdout)
    ours = stored_here(wrong_manifests.GOOD[name])
    assert without_what_the_server_sets(ours) == without_what_the_server_sets(theirs)


def test_refusals(reference):
    assert wrong_manifests.refusals(reference.kubeconfig) == json.loads(wrong_manifests.RECORDED.read_text())
