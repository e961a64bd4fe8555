"""`stowplan config`: what a configuration means, offline."""
