"""What the scheduler knows of the cluster, kept as columns."""
