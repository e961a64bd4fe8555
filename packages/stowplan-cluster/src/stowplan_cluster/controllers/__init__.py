"""Controllers of the embedded cluster.

Each controller watches some storages, maps changes to keys, and reconciles one key at a time, synchronously, writing
through the registry like any other client. `loop.py` runs them, `pump.py` drives the loop on an event loop. They cover
the common cases; each module lists what it leaves out.

Upstream: cmd/kube-controller-manager, pkg/controller.
"""
