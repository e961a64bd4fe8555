"""Counterfactual questions about a cluster, each answered in a transaction.

The questions are about a `stowplan.Cluster`, and the real scheduler answers them: pods that fit were placed, stranded
pods were rejected. Nothing is evicted or changed anywhere.

    fit(cluster, pod)                      # how many more such pods fit, where, and what is the limiting resource
    drain(cluster, ["node-1"])             # where its pods would go, and which budgets block it
    survive(cluster)                       # the effect of losing each node or zone
    what_if(cluster, Remove("node-1"))     # which pods a change places, and which lose their node
    heatmaps(cluster, Remove("node-1"))    # how full the nodes are before and after a change, as a picture
    fit_group(cluster, "train")            # how many more such pod groups fit as a whole
    group_relief(cluster, cluster.explain_group("train"))    # what lets a pod group fit
"""

from stowplan.ask.what_if.before_and_after import heatmaps, what_if
from stowplan.ask.what_if.drain import drain
from stowplan.ask.what_if.fit import fit
from stowplan.ask.what_if.group_fit import fit_group
from stowplan.ask.what_if.hypothetical_changes import AddNodes, Change, Label, Put, Reconfigure, Remove, Scale, Taint
from stowplan.ask.what_if.hypothetical_nodes import NodeKind
from stowplan.ask.what_if.relief import group_relief
from stowplan.ask.what_if.survive import survive

__all__ = [
    "AddNodes",
    "Change",
    "Label",
    "NodeKind",
    "Put",
    "Reconfigure",
    "Remove",
    "Scale",
    "Taint",
    "drain",
    "fit",
    "fit_group",
    "group_relief",
    "heatmaps",
    "survive",
    "what_if",
]
