"""Check changed manifests against a cluster: would their pods fit, and what would they take from others."""
