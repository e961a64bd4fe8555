"""URLs. Upstream: k8s.io/apiserver/pkg/cel/library/urls.go; syntax and messages: Go's net/url."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, quote, unquote

from stowplan.kube.cel import static_types as t
from stowplan.kube.cel import values as v
from stowplan.kube.cel.cel_errors import ValueProblem
from stowplan.kube.cel.declarations import function, member, overload
from stowplan.kube.cel.functions.semvers import quoted
from stowplan.kube.cel.values import Value
from stowplan.kube.structs import PlainStruct

_SCHEME_RE = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_CONTROL_RE = re.compile(r"[\x00-\x1f\x7f]")
_BAD_ESCAPE_RE = re.compile(r"%(?![0-9A-Fa-f]{2}).{0,2}")
_PORT_RE = re.compile(r"(?::[0-9]*)?")
_BAD_HOST_CHAR_RE = re.compile(r'[ "<>\\^`{|}]')
#: Characters that need no escaping in a path.
_PATH_SAFE = "$&+,/:;=@!'()*~"


class Url(PlainStruct, frozen=True):
    text: str
    scheme: str
    host: str
    escaped_path: str
    query: str


v.register(Url, t.URL)
v.register_strict_equality(Url)


class UrlError(ValueError):
    """An invalid request URL; has the reference's message."""


def read_url(text: str) -> Url:
    """An absolute URL, or an absolute path."""
    rest, _, _fragment = text.partition("#")
    if _CONTROL_RE.search(text):
        raise _wrong(text, "net/url: invalid control character in URL")
    if not text:
        raise _wrong(text, "empty url")
    scheme, rest = _scheme(text, rest)
    rest, _, query = rest.partition("?")
    if not rest.startswith("/"):
        if scheme:
            return Url(text, scheme, "", "", query)
        raise _wrong(text, "invalid URI for request")
    host = ""
    if scheme and rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        host, rest = _host(text, authority), slash + path
    bad = _BAD_ESCAPE_RE.search(rest)
    if bad:
        raise _wrong(text, f"invalid URL escape {quoted(bad[0])}")
    return Url(text, scheme, host, _escaped(rest), query)


def _wrong(text: str, problem: str) -> UrlError:
    return UrlError(f"parse {quoted(text)}: {problem}")


def _scheme(text: str, rest: str) -> tuple[str, str]:
    match = _SCHEME_RE.match(rest)
    if match:
        return match[1].lower(), rest[match.end() :]
    if rest.startswith(":"):
        raise _wrong(text, "missing protocol scheme")
    return "", rest


def _host(text: str, authority: str) -> str:
    host = authority.rpartition("@")[2]
    if host.startswith("["):
        bracket = host.rfind("]")
        if bracket < 0:
            raise _wrong(text, "missing ']' in host")
        port = host[bracket + 1 :]
    else:
        colon = host.rfind(":")
        port = host[colon:] if colon >= 0 else ""
    if not _PORT_RE.fullmatch(port):
        raise _wrong(text, f"invalid port {quoted(port)} after host")
    bad = _BAD_HOST_CHAR_RE.search(host)
    if bad:
        raise _wrong(text, f"invalid character {quoted(bad[0])} in host name")
    return host


def _escaped(path: str) -> str:
    """The path as written if that is a valid encoding, otherwise in the default one."""
    if not re.search(r"[^A-Za-z0-9\-._~%$&+,/:;=@!'()*\[\]]", path):
        return path
    return quote(unquote(path), safe=_PATH_SAFE)


def _url(text: str) -> Value:
    try:
        return read_url(text)
    except UrlError as error:
        raise ValueProblem(f"URL parse error during conversion from string: {error}") from None


def _is_url(text: str) -> Value:
    try:
        read_url(text)
    except UrlError:
        return False
    return True


def _host_and_port(url: Url) -> tuple[str, str]:
    if url.host.startswith("["):
        name, _, port = url.host[1:].rpartition("]")
        return name, port.removeprefix(":")
    name, colon, port = url.host.rpartition(":")
    return (name, port) if colon else (url.host, "")


def _query(url: Url) -> Value:
    found: dict[Value, list[Value]] = {}
    for key, value in parse_qsl(url.query, keep_blank_values=True):
        found.setdefault(key, []).append(value)
    return found


FUNCTIONS = [
    function("url", overload("string_to_url", "string -> URL", _url)),
    function("isURL", overload("is_url_string", "string -> bool", _is_url)),
    function("getScheme", member("url_get_scheme", "URL -> string", lambda url: url.scheme)),
    function("getHost", member("url_get_host", "URL -> string", lambda url: url.host)),
    function("getHostname", member("url_get_hostname", "URL -> string", lambda url: _host_and_port(url)[0])),
    function("getPort", member("url_get_port", "URL -> string", lambda url: _host_and_port(url)[1])),
    function("getEscapedPath", member("url_get_escaped_path", "URL -> string", lambda url: url.escaped_path)),
    function("getQuery", member("url_get_query", "URL -> map(string, list(string))", _query)),
]
