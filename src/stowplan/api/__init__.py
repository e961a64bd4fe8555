"""The Kubernetes objects the scheduler reads, and the small languages inside them.

Structs (`types`), quantities, label and node selectors, taints, host ports, image names, the
resource request of a pod, and the way from JSON or YAML to all of these. Everything here is
plain data and pure functions: no I/O but `load`, no clock, no event loop.
"""
