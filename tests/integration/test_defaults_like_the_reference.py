"""Manifests of all kinds are refused, or stored with defaults and printed, as recorded of a real kube-apiserver.

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
        answers = wrong_manifests.answers(server.kubeconfig)
    files = wrong_manifests.RECORDED, wrong_manifests.STORED, wrong_manifests.PRINTED, wrong_manifests.OWNED
    for file, found in zip(files, answers, strict=True):
        assert found == json.loads(file.read_text()), file.name
