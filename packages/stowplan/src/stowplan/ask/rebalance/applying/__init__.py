"""Plans carried out in a live cluster."""
