"""Controllers of the embedded cluster.

Each watches some storages, turns changes into keys, and reconciles one key at a time, synchronously,
through the registry, like any other client. `loop.py` drives them, `pump.py` keeps that going on an
event loop. They are small and right for the common case; each module says what it leaves out.

Upstream: cmd/kube-controller-manager, pkg/controller.
"""
