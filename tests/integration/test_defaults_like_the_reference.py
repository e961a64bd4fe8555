"""Manifests of all kinds are stored with the defaults of a real kube-apiserver, and refused with its messages.

What is recorded of it, and compared with ours in the tests of the cluster, is what it says now.
"""

import json

import pytest

from support.api import wrong_manifests
from support.processes.servers import assets, real_server


@pytest.mark.skipif(assets() is None, reason="KUBEBUILDER_ASSETS names no kube-apiserver")
def test_it_answers_as_recorded(tmp_path):
    with real_server(tmp_path, assets(), wrong_manifests.GATES) as server:
        # It appears a moment after the server has started.
        server.kubectl("create", "namespace", "default", check=False)
        refused, stored = wrong_manifests.answers(server.kubeconfig)
    assert refused == json.loads(wrong_manifests.RECORDED.read_text())
    assert stored == json.loads(wrong_manifests.STORED.read_text())
