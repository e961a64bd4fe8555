"""Pages of the secure port."""
