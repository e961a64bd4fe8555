"""Changes carried out in a new cluster for each step, which schedules there, to compare a plan's answer with."""

from msgspec.structs import replace

from stowplan.ask.loading.generated import claim_for, ephemeral_claims
from stowplan.ask.what_if.hypothetical_pods import recreated
from stowplan.kube.api.decode import convert
from stowplan.kube.api.device_claims import ResourceClaimStatus
from stowplan.kube.api.eviction_outcomes import EvictionOutcome, eviction_outcome
from stowplan.kube.api.pod import PodResourceClaimStatus
from stowplan.kube.api.types import Node, PersistentVolumeClaim, Pod, ResourceClaim
from support.plugins.devices import a_claim, exactly

DEVICE = convert(a_claim("c", exactly()), ResourceClaim).spec


def with_claims(pod):
    """The pod, and the claims that are made for it."""
    made = [
        claim_for(pod, entry.name, DEVICE) for entry in pod.spec.resource_claims if entry.resource_claim_template_name
    ]
    names = tuple(PodResourceClaimStatus(name="gpu", resource_claim_name=claim.metadata.name) for claim in made)
    yield from (*ephemeral_claims(pod), *made)
    yield replace(pod, status=replace(pod.status, resource_claim_statuses=names))


def all_recreated(pods):
    """Pods as their controllers recreate them, with the claims created for them."""
    for pod in map(recreated, pods):
        yield from with_claims(pod)


def without_claims_of(objects, pods):
    """The objects without those that go with pods; other claims are free once nobody uses them."""
    gone = {pod.metadata.uid for pod in pods}
    left = []
    for obj in objects:
        of_pod = isinstance(obj, PersistentVolumeClaim | ResourceClaim)
        if of_pod and any(owner.uid in gone for owner in obj.metadata.owner_references):
            continue
        if isinstance(obj, ResourceClaim) and any(user.uid in gone for user in obj.status.reserved_for):
            users = tuple(user for user in obj.status.reserved_for if user.uid not in gone)
            obj = replace(obj, status=replace(obj.status, reserved_for=users) if users else ResourceClaimStatus())
        left.append(obj)
    return left


def in_order(cluster, keys):
    """By priority; equal pods together."""
    infos = [cluster.pod(key) for key in keys]
    kinds = list(dict.fromkeys(info.shape.template for info in infos))
    return sorted(infos, key=lambda info: (-info.priority, kinds.index(info.shape.template)))


class Real:
    """A cluster that really schedules; evicted pods are recreated."""

    def __init__(self, drawn, objects):
        self.drawn = drawn
        self.cluster = drawn.cluster(objects)
        self.moves, self.stranded, self.displaced = [], {}, []

    def places(self, pods):
        """Schedule these pods, then those that they preempt, and those that were rejected before another one went."""
        pods = list(pods)
        for obj in all_recreated(pods):
            self.cluster.add(obj)
        self.tries([f"default/{pod.metadata.name}" for pod in pods])

    def tries(self, keys):
        while keys:
            keys = self._placed(keys)

    def _placed(self, keys):
        before = {info.uid: info.pod for info in self.cluster.state.placed_pods()}
        self.cluster.bind_claims()
        again, rejected = [], []
        for turn in self._turns(keys):
            for decision in self.cluster.schedule(turn):
                key = decision.pod.key
                if decision.node_name:
                    self.moves.append((key, decision.node_name))
                    self.stranded.pop(key, None)
                    again += rejected
                    rejected = []
                else:
                    self.stranded[key] = None
                    rejected.append(key)
        evicted = self._pushed_away(before)
        for obj in all_recreated(evicted):
            self.cluster.add(obj)
        return [*again, *(f"default/{pod.metadata.name}" for pod in evicted)]

    def _turns(self, keys):
        """One pod after the other, those of the group together."""
        turns = {}
        for info in in_order(self.cluster, keys):
            if self.cluster.engine.framework_for(info) is None:
                self.stranded[info.key] = None
            elif self.drawn.gates and info.pod.spec.scheduling_group is not None:
                turns.setdefault("group", []).append(info.key)
            else:
                turns[info.key] = [info.key]
        return turns.values()

    def places_all(self):
        evicted = True
        while evicted:
            before = {info.uid: info.pod for info in self.cluster.state.placed_pods()}
            self.cluster.bind_claims()
            self.cluster.schedule()
            evicted = self._pushed_away(before)
            for obj in all_recreated(evicted):
                self.cluster.add(obj)
        return self

    def _pushed_away(self, before):
        after = {info.uid for info in self.cluster.state.placed_pods()}
        gone = [pod for uid, pod in before.items() if uid not in after]
        self.displaced += [f"default/{pod.metadata.name}" for pod in gone]
        self.cluster = self.drawn.cluster(without_claims_of(self.cluster.state.everything(), gone))
        return [pod for pod in gone if eviction_outcome(pod) is EvictionOutcome.RECREATED]

    def homes(self):
        infos = self.cluster.state.placed_pods()
        return {
            info.key: info.node_name
            for info in infos
            if eviction_outcome(info.pod) is not EvictionOutcome.BELONGS_TO_NODE
        }


def without(objects, leaving):
    gone = {pod.metadata.name for pod in leaving}
    return [
        obj for obj in without_claims_of(objects, leaving) if not (isinstance(obj, Pod) and obj.metadata.name in gone)
    ]


def on(objects, name):
    return [obj for obj in objects if isinstance(obj, Pod) and obj.spec.node_name == name]


def changed_node(objects, name, change):
    return [change(obj) if isinstance(obj, Node) and obj.metadata.name == name else obj for obj in objects]
