"""Which running pods to move so that a cluster meets a goal; each move is a decision of the scheduler itself.

    rebalance(cluster, Mend())             # pods whose node would not take them any more
    rebalance(cluster, FreeNodes(3))       # empty three nodes
    rebalance(cluster, Pack())             # empty as many as possible
    rebalance(cluster, Spread())           # even out the nodes' use
    rebalance(cluster, Pack(Weights(disruption=0.2)))  # a node is worth five moves
    rebalance(cluster, RoomFor(pods))      # room for pending pods
    what_if(cluster, Rebalance(Pack()))    # before and after, as for other changes
    rebalance(cluster, ByPolicy(read_policy("descheduler.yaml")))
    room(cluster)                          # how many more pods of common shapes fit, and what moves would gain

A plan is data: nothing is evicted.
"""

from stowplan.ask.rebalance.gained_room import room
from stowplan.ask.rebalance.goals import FreeNodes, Goal, Mend, Pack, RoomFor, Spread
from stowplan.ask.rebalance.policy.by_policy import ByPolicy
from stowplan.ask.rebalance.policy.policy_file import read_policy
from stowplan.ask.rebalance.rebalance import Rebalance, rebalance
from stowplan.ask.rebalance.weights import Weights

__all__ = [
    "ByPolicy",
    "FreeNodes",
    "Goal",
    "Mend",
    "Pack",
    "Rebalance",
    "RoomFor",
    "Spread",
    "Weights",
    "read_policy",
    "rebalance",
    "room",
]
