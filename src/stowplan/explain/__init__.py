"""A decision as data, as text, as JSON."""
