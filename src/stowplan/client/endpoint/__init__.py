"""How a server is reached: its address, proxies, TLS, and the files that these name."""
