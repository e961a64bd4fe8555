"""Which nodes get a pod of a DaemonSet, which may keep it, and how it is restricted to its node."""

import pytest

from stowplan.kube.api.daemon_pods import may_stay, node_of, tied_to, tolerating, untied, wanted_on
from stowplan.kube.api.decode import convert
from stowplan.kube.api.node import Node
from stowplan.kube.api.pod import Pod

CORDONED = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
NO_NETWORK = {"key": "node.kubernetes.io/network-unavailable", "effect": "NoSchedule"}


def template(**spec):
    return tolerating(convert({"spec": spec}, Pod))


def terms(*names):
    fields = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]} for name in names]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": fields}}}


@pytest.mark.parametrize(
    ("spec", "taints", "wanted", "stays"),
    [
        pytest.param({}, [], True, True, id="nothing asked"),
        pytest.param({}, [CORDONED], True, True, id="cordoned"),
        pytest.param({}, [NO_NETWORK], False, True, id="no network"),
        pytest.param({"hostNetwork": True}, [NO_NETWORK], True, True, id="no network, but that of the host"),
        pytest.param({}, [{"key": "gpu", "effect": "NoSchedule"}], False, True, id="only new pods are kept off"),
        pytest.param({}, [{"key": "gpu", "effect": "NoExecute"}], False, False, id="running pods leave as well"),
        pytest.param({"nodeSelector": {"disk": "ssd"}}, [], True, True, id="the label is there"),
        pytest.param({"nodeSelector": {"disk": "hdd"}}, [], False, False, id="another label"),
        pytest.param({"nodeName": "n2"}, [], False, False, id="for another node by name"),
        pytest.param({"affinity": terms("n2", "n1")}, [], True, True, id="required affinity"),
    ],
)
def test_nodes_of_a_template(spec, taints, wanted, stays):
    node = convert({"metadata": {"name": "n1", "labels": {"disk": "ssd"}}, "spec": {"taints": taints}}, Node)
    assert (wanted_on(template(**spec), node), may_stay(template(**spec), node)) == (wanted, stays)


def test_a_toleration_that_is_there_is_not_added():
    once = template(tolerations=[{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}])
    assert len(once.spec.tolerations) == len(template().spec.tolerations) == 6
    assert tolerating(once) == once


def test_a_pod_is_restricted_to_its_node():
    spread = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {}}]}
    tied = tied_to(template(affinity={"nodeAffinity": {**terms("n1", "n2")["nodeAffinity"], **spread}}), "n2")
    assert node_of(tied.spec.affinity) == "n2"
    assert untied(tied) == template(affinity={"nodeAffinity": spread})
    assert node_of(untied(tied).spec.affinity) == node_of(template(affinity=terms("n1", "n2")).spec.affinity) == ""
