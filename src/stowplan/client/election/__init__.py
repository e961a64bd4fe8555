"""Leader election on Leases."""
