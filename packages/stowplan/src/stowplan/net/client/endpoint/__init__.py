"""How to reach a server: URL, proxy, TLS, and the files these refer to."""
