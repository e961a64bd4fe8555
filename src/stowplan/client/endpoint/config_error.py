"""Errors in client configuration or credentials, found before any request is sent.

The two differ in what a long-running client should do. A configuration stays wrong until somebody edits it. Credentials
may come back: the token file is written again, the exec plugin reaches its identity provider.
"""

from __future__ import annotations


class ClientConfigError(ValueError):
    """No connection can be made from this; `str()` names the file, the entry, the field and the way out."""


class CredentialsError(Exception):
    """Credentials could not be had just now; the next request tries again."""
