"""Leases: which of several schedulers is the leader."""
