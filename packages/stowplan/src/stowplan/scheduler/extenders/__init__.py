"""HTTP extenders without I/O: requests and responses. `client.extender_http` sends them."""
