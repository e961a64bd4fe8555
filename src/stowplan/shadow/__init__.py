"""What this scheduler would have decided for pods that another one places."""
