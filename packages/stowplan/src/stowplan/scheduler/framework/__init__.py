"""The contract between the scheduler and its plugins."""
