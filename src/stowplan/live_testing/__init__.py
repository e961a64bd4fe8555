"""A complete scheduler in memory for plugin tests: no server, no event loop, no waiting.

    with live_cluster(a_node("n1").obj(), config=config, plugins=[MyPlugin]) as cluster:
        cluster.create(a_pod("web-0").obj())
        assert cluster.node_of("web-0") == "n1"

It is the engine of `stowplan run` in simulated time, on a small object store. Time stands still until `advance`; what
needs no time happens before `create`, `patch`, `delete` and `advance` return. Nobody else is at work: pods that are
bound stay as they are, and objects are taken as they come, without admission, defaults and most of validation.

Coroutines of plugins may await the handle's `api` only: what else they await (a sleep, an HTTP client) would need real
time, and fails the attempt with a message that says so. Plugins written as steps can wait for time, too.
"""

from stowplan.live_testing.cluster import LiveCluster, RestlessError, live_cluster
from stowplan.simulate.latency import Latency, Uniform

__all__ = ["Latency", "LiveCluster", "RestlessError", "Uniform", "live_cluster"]
