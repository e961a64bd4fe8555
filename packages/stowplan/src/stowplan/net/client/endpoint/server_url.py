"""Parse an API server URL from kubeconfig or --master.

Upstream: staging/src/k8s.io/client-go/rest/url_utils.go.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from stowplan.net.client.endpoint.config_error import ClientConfigError

_NO_HOST = "host must be a URL or a host:port pair"


def server_url(text: str, *, where: str) -> str:
    """Return `scheme://host:port/prefix` without a slash at the end; raise ClientConfigError."""
    if not text:
        raise ClientConfigError(f"invalid configuration: {where}: no server is given, expected https://host:6443")
    # Parity: without a scheme it is plain HTTP, whatever the port.
    url = text if "://" in text else f"http://{text}"
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        # The parser quotes its input, which may be part of a password.
        raise ClientConfigError(f"invalid configuration: {where}: {_NO_HOST}; expected https://host:6443") from None
    problem = ""
    if parts.scheme not in ("http", "https"):
        problem = f"unsupported scheme {parts.scheme!r}"
    elif not host:
        problem = _NO_HOST
    elif parts.username is not None:
        problem = "a server cannot hold a user name or password, they belong into the user entry"
    elif not text.isprintable() or " " in text:
        problem = "there are spaces or control characters in it"
    elif "://" not in text and parts.path not in ("", "/"):
        problem = f"{_NO_HOST}, a path needs https:// in front"
    if problem:
        raise ClientConfigError(f"invalid configuration: {where}: {problem}; expected https://host:6443")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
