"""Compare this scheduler's decisions with another's on a live cluster."""
