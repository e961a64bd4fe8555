"""The HTTP front of the embedded API server."""
