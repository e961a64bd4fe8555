"""Compare configurations on the same scenarios and seeds."""
