"""The secure port: health, metrics and the inside of a running scheduler, for those who may see it."""
