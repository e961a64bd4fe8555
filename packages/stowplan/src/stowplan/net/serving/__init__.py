"""The secure port: health, metrics and state of a running scheduler."""
