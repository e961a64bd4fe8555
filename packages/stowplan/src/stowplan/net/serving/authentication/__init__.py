"""Authentication: client certificates, front proxies, tokens."""
