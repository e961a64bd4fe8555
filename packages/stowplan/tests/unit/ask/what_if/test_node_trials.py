"""What a cluster autoscaler asks: why a new node would not take a pod."""

from stowplan import Cluster
from stowplan.ask.what_if.node_trials import NodeTrials
from stowplan.kube.api.decode import decode_object
from support.what_if.objects import node, pod


def test_why_a_new_node_refuses_pods():
    cluster = Cluster([node("a")])
    asked = {
        "fits": pod("fits"),
        "large": pod("large", "9"),
        "elsewhere": pod("elsewhere", nodeSelector={"disk": "ssd"}),
        "without its claim": pod("claims", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]),
        "other scheduler": pod("other", schedulerName="other"),
    }
    for name, one in asked.items():
        one["metadata"]["uid"] = name
    tainted = node("new", taints=[{"key": "k", "effect": "NoSchedule"}])
    pods = [decode_object(one) for one in asked.values()]
    trials = NodeTrials(cluster.engine)
    assert trials.refusals(decode_object(node("new")), pods) == {
        "fits": (),
        "large": ("Insufficient cpu",),
        "elsewhere": ("node(s) didn't match Pod's node affinity/selector",),
        "without its claim": ('persistentvolumeclaim "c" not found',),
        "other scheduler": (),
    }
    assert trials.refusals(decode_object(tainted), pods[:1]) == {"fits": ("node(s) had untolerated taint(s)",)}
    assert list(cluster.state.table.names) == ["a"]
