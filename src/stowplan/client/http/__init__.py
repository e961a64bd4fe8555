"""Requests over HTTP: connections, TLS, retries, lanes, decoding."""
