"""Errors in client configuration or credentials, found before any request is sent.

A long-running client should treat them differently: an invalid configuration is permanent, while credentials may become
available again, when the token file is rewritten or the exec plugin reaches its identity provider.
"""

from __future__ import annotations


class ClientConfigError(ValueError):
    """The configuration is invalid; `str()` names the file, the entry, the field and the fix."""


class CredentialsError(Exception):
    """Credentials are currently unavailable; the next request retries."""
