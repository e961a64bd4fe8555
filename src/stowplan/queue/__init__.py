"""Which pod is tried next, and when the others wake up."""
