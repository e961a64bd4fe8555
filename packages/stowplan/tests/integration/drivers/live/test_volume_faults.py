"""Pods, volume controllers and faults in random order: no volume is bound to two claims, and no pod hangs.

More claims than local volumes compete for these; other volumes are provisioned. Provisioners refuse nodes, and claims,
volumes, pods and nodes are deleted between decisions and binds. A bound pod must always be where its volumes are.
"""

from random import Random

import pytest

from stowplan.kube.api.api_errors import ApiError
from stowplan.testing import a_node, a_pod
from support.examples import times
from support.live.live_scheduler import live
from support.live.volumes import StorageControllers
from support.plugins.claims import COMPLETED, HOST, SELECTED, ZONE, a_class, claim, volume

NODES = ["a", "b", "c"]


def node(name):
    return a_node(name).labels({HOST: name, ZONE: f"z{name}"}).allocatable(cpu="4", memory="8Gi", pods=20).obj()


def local_volume(i, chance):
    on = {HOST: [chance.choice(NODES)]}
    return volume(f"local-{i}", class_name="local", size=chance.choice(["1Gi", "2Gi", "5Gi"]), on=on,
                  spec={"local": {"path": "/x"}})  # fmt: skip


class Scene:
    def __init__(self, cluster, seed):
        self.cluster = cluster
        self.chance = Random(seed)
        self.controllers = StorageControllers(cluster)
        self.number = 0

    async def act(self):
        acts = [self.come, self.come, self.control, self.control, self.control, self.wait, self.refuse, self.lose,
                self.volume, self.release]  # fmt: skip
        act = self.chance.choice(acts)
        try:
            await act()
        except ApiError:
            # The object no longer exists.
            await self.cluster.settle()

    async def come(self):
        """Create a pod with one or two claims."""
        self.number += 1
        names = [f"c{self.number}-{i}" for i in range(self.chance.choice([1, 1, 2]))]
        of = self.chance.choice(["local", "local", "made"])
        pod = a_pod(f"p{self.number}").requests(cpu="100m")
        for name in names:
            pod.claims_volume(name)
        claims = [claim(name, class_name=of, size=self.chance.choice(["1Gi", "2Gi"])) for name in names]
        await self.cluster.create(*claims, pod.obj())

    async def control(self):
        self.controllers.step(self.chance.randrange(1, 12))
        if self.chance.random() < 0.7:
            await self.cluster.settle()

    async def wait(self):
        await self.cluster.advance(self.chance.choice([1.0, 15.0, 610.0]))

    def some(self, plural):
        storage = self.cluster.server.store.list(plural, "")
        return self.chance.choice([one.to_dict() for one in storage]) if storage else None

    async def refuse(self):
        one = self.some("persistentvolumeclaims")
        if one is not None and not one["spec"].get("volumeName"):
            patch = {"metadata": {"annotations": {SELECTED: None}}}
            await self.cluster.patch("persistentvolumeclaims", one["metadata"]["name"], patch)

    async def lose(self):
        plural = self.chance.choice(["persistentvolumeclaims", "pods", "persistentvolumes"])
        one = self.some(plural)
        if one is not None:
            await self.cluster.delete(plural, one["metadata"]["name"])

    async def volume(self):
        self.number += 1
        await self.cluster.create(local_volume(self.number, self.chance))

    async def release(self):
        """Remove the claim reference of a volume."""
        one = self.some("persistentvolumes")
        if one is not None and one["spec"].get("claimRef") and one["status"].get("phase") != "Bound":
            await self.cluster.patch("persistentvolumes", one["metadata"]["name"], {"spec": {"claimRef": None}})

    # -- invariants ----------------------------------------------------------------------------------------------------

    def check(self):
        store = self.cluster.server.store
        claims = [one.to_dict() for one in store.list("persistentvolumeclaims", "")]
        bound = [c["spec"]["volumeName"] for c in claims if COMPLETED in c["metadata"].get("annotations", {})]
        assert len(bound) == len(set(bound)), "a volume is bound to two claims"
        state = self.cluster.scheduler.state
        promised = {}
        for copy in state.assumed.dump():
            reference = getattr(copy.spec, "claim_ref", None)
            if reference is not None:
                assert promised.setdefault(copy.metadata.name, reference.name) == reference.name
        taken = list(promised.values())
        assert len(taken) == len(set(taken)), "two volumes are reserved for one claim"
        self.cluster.scheduler.engine.validate()

    def check_places(self):
        """Each pod with a node was bound where its volumes could be used."""
        store = self.cluster.server.store
        claims = {one.name: one.to_dict() for one in store.list("persistentvolumeclaims", "")}
        volumes = {one.name: one.to_dict() for one in store.list("persistentvolumes", "")}
        for pod in (one.to_dict() for one in store.list("pods", "")):
            on = pod["spec"].get("nodeName")
            for used in pod["spec"]["volumes"] if on else ():
                found = claims.get(used["persistentVolumeClaim"]["claimName"])
                of = volumes.get(found["spec"].get("volumeName")) if found else None
                if of is None or of["spec"].get("claimRef", {}).get("uid") != found["metadata"]["uid"]:
                    # The claim or the volume was deleted, and may have been recreated.
                    continue
                (term,) = of["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
                labels = self.cluster.get("nodes", on)["metadata"]["labels"]
                assert all(labels[e["key"]] in e["values"] for e in term["matchExpressions"]), pod["metadata"]["name"]


@pytest.mark.parametrize("seed", range(times(2)))
async def test_faults(seed):
    classes = [a_class("local", provisioner="kubernetes.io/no-provisioner"), a_class("made", provisioner="p")]
    chance = Random(seed)
    volumes = [local_volume(i, chance) for i in range(900, 904)]
    async with live(*map(node, NODES), *classes, *volumes) as cluster:
        scene = Scene(cluster, seed)
        for _ in range(40):
            await scene.act()
            scene.check()
        for _ in range(4):
            await scene.controllers.settle()
            await cluster.advance(620.0)
            scene.check()
        await scene.controllers.settle()
        assert cluster.scheduler.engine.under_way == 0, "a pod hangs"
        assert len(cluster.scheduler.state.assumed) == 0
        scene.check_places()
