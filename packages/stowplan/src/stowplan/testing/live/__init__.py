"""A complete scheduler in memory for plugin tests: no server, no event loop, no waiting.

    with live_cluster(a_node("n1").obj(), config=config, plugins=[MyPlugin]) as cluster:
        cluster.create(a_pod("web-0").obj())
        assert cluster.node_of("web-0") == "n1"

This is the engine of `stowplan run` in simulated time, on a small object store. Time only passes in `advance`; whatever
takes no time has happened when `create`, `patch`, `delete` and `advance` return. There are no controllers or kubelets:
bound pods stay as they are, and objects are stored unchanged, without admission, defaulting and most of validation.

Coroutines of plugins may only await the handle's `api`. Anything else (a sleep, an HTTP client) would need real time,
and fails the attempt with a message that says so. Plugins written as steps can wait for time, too.
"""

from stowplan.drivers.virtual_time.latency import Latency, Uniform
from stowplan.testing.live.cluster import LiveCluster, NeverIdleError, live_cluster

__all__ = ["Latency", "LiveCluster", "NeverIdleError", "Uniform", "live_cluster"]
