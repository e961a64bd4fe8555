"""HTTP requests: connections, TLS, retries, priority lanes, decoding."""
