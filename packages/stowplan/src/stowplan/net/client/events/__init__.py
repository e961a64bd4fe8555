"""Record, aggregate and send Events."""
