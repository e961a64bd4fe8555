"""Certificates, keys and TLS contexts that follow their files; TLS in memory."""
