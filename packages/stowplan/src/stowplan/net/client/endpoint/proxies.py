"""Select a proxy: the cluster's `proxy-url`, or the environment as Go interprets it.

HTTPS_PROXY applies to https servers, HTTP_PROXY to http ones, each also in lower case. NO_PROXY lists direct
destinations: `*`, addresses, networks, and domains including subdomains; each except for networks may have a port.
Local servers are always reached directly.

Upstream: golang.org/x/net/http/httpproxy, clientcmd's parseProxyURL.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from stowplan.net.client.client_errors import ClientConfigError

_DEFAULT_PORTS = {"http": "80", "https": "443"}

_IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


def proxy_problem(url: str) -> str:
    """The problem with a proxy URL; empty if it is valid. Never quotes the URL, which may contain a password."""
    if not url:
        return ""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "it could not be parsed, expected a URL like http://proxy.example:3128"
    if parts.scheme in ("socks5", "socks5h"):
        return f"{parts.scheme} proxies are not supported; use an http or https proxy"
    if parts.scheme not in _DEFAULT_PORTS:
        return f"unsupported scheme {parts.scheme!r}, must be http or https"
    if not url.isprintable() or " " in url:
        return "there are spaces or control characters in it"
    return "" if host else "it names no host"


def proxy_from_environment(server: str, environ: Mapping[str, str]) -> str | None:
    """The proxy for a server URL; raises ClientConfigError if the environment has an invalid one."""
    parts = urlsplit(server)
    name = f"{parts.scheme.upper()}_PROXY"
    proxy = environ.get(name) or environ.get(name.lower())
    if not proxy:
        return None
    host, port = parts.hostname or "", str(parts.port or _DEFAULT_PORTS[parts.scheme])
    if _is_local(host) or _is_excluded(host, port, environ.get("NO_PROXY") or environ.get("no_proxy") or ""):
        return None
    url = proxy if "://" in proxy else f"http://{proxy}"
    problem = proxy_problem(url)
    if problem:
        raise ClientConfigError(f"environment variable {name}: {problem}; NO_PROXY={host} would go around it")
    return url


def _ip(text: str) -> _IpAddress | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    # As in Go, an IPv4-mapped IPv6 address counts as IPv4; Python handles that from 3.13 on, and only partly.
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def _is_local(host: str) -> bool:
    address = _ip(host)
    return host == "localhost" if address is None else address.is_loopback


def _is_excluded(host: str, port: str, no_proxy: str) -> bool:
    entries = [entry for entry in (part.strip().lower() for part in no_proxy.split(",")) if entry]
    return "*" in entries or _is_listed(host, port, entries)


def _is_listed(host: str, port: str, entries: Iterable[str]) -> bool:
    address = _ip(host)
    if address is None:
        return any(_names_domain(entry, host, port) for entry in entries)
    return any(_names_address(entry, address, port) for entry in entries)


def _names_address(entry: str, address: _IpAddress, port: str) -> bool:
    if "/" in entry:
        try:
            return address in ipaddress.ip_network(entry, strict=False)
        except ValueError:
            return False
    host, entry_port = _host_and_port(entry)
    return _ip(host) == address and entry_port in ("", port)


def _names_domain(entry: str, host: str, port: str) -> bool:
    domain, entry_port = _host_and_port(entry)
    domain = domain[1:] if domain.startswith("*.") else domain
    if not domain or entry_port not in ("", port):
        return False
    return host.endswith(domain) if domain.startswith(".") else host == domain or host.endswith(f".{domain}")


def _host_and_port(entry: str) -> tuple[str, str]:
    if entry.startswith("["):
        host, _, rest = entry[1:].partition("]")
        return host, rest.removeprefix(":")
    # More than one colon is an IPv6 address without a port.
    host, _, port = entry.partition(":") if entry.count(":") == 1 else (entry, "", "")
    return host, port


# Parse an API server URL from kubeconfig or --master.
#
# Upstream: staging/src/k8s.io/client-go/rest/url_utils.go.

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
