"""Who sends a request: client certificates, front proxies, tokens."""
