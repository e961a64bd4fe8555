"""Pages of the secure port, each made of what it shows."""
