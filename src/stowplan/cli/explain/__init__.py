"""`stowplan explain`."""
