"""The embedded cluster: an API server, controllers and an HTTP front in one process, and the commands that run them."""
