"""Users' plugins are called so that one that hangs costs its pod's attempt, and nothing else."""
