"""The Kubernetes objects that the scheduler reads, and the small languages inside them.

Structs (`types`), quantities, label and node selectors, taints, host ports, image names, the resource requests of a
pod, and decoding from JSON or YAML. Everything here is plain data and pure functions: no I/O except for `load`, no
clock, no event loop.
"""
