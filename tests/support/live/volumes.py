"""The embedded cluster's volume controllers beside a live scheduler, run step by step."""

from stowplan_cluster.controllers.loop import Loop
from stowplan_cluster.controllers.volumes.volume_controllers import Provisioner, VolumeBinder


class StorageControllers:
    def __init__(self, cluster, *controllers):
        self._cluster = cluster
        registry = cluster.server.registry
        made = [make(registry) for make in controllers or (VolumeBinder, Provisioner)]
        self._loop = Loop(registry, made, cluster.time.wall_clock)

    def step(self, limit=1):
        """Run a limited number of steps; returns whether there was anything to do."""
        return self._loop.step(limit)

    async def settle(self):
        """Run them and the scheduler until neither has anything to do."""
        await self._cluster.settle()
        while self._loop.step(10_000):
            await self._cluster.settle()


def claim_of(cluster, name):
    """(phase, volume) of a claim on the API server."""
    claim = cluster.get("persistentvolumeclaims", name)
    return claim.get("status", {}).get("phase", ""), claim["spec"].get("volumeName", "")


def claimed_volumes(cluster):
    """Volume -> the claim that it is bound to."""
    found = {}
    for stored in cluster.server.store.list("persistentvolumes", ""):
        reference = stored.to_dict()["spec"].get("claimRef")
        if reference is not None:
            found[stored.name] = reference["name"]
    return found
