"""Configurations of older releases, converted to v1 as plain data before anything else looks at them."""
