"""Convert configurations of older releases to v1, as plain data."""
