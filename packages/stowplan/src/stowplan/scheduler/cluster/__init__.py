"""The scheduler's view of the cluster, in columns."""
