"""Kubernetes' own: API types, configuration, CEL, logs, metrics, clocks."""
