"""Certificates, keys and TLS contexts that reload; TLS in memory."""
