"""Commands, flags and the process."""
