"""Claims and volumes: which volume a claim gets, where one is provisioned, what becomes of it.

Controllers of typed objects and the time, without an API server: each change of an object becomes keys, and a key
becomes writes (`writes.py`). The embedded cluster carries them out on its registry, virtual time on its object store.
"""
