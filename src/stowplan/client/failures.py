"""Requests without an answer: what went wrong in words, whether the server may have seen them, whether to try again.

aiohttp tells connections that were never made (`ClientConnectorError` and its kind) from those that broke; only the
former are certain not to have been acted upon.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass

import aiohttp

#: What a request can end with besides an answer.
FAILURES = (aiohttp.ClientError, TimeoutError, OSError)

_WRONG_NAME = (62, 64)  # X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH


@dataclass(frozen=True, slots=True)
class Failure:
    why: str
    #: Whether the request may have reached the server.
    sent: bool
    #: Whether it will fail again until somebody changes something.
    lasting: bool = False


def failure_of(error: Exception) -> Failure:
    not_sent = _not_sent(error)
    return not_sent if not_sent is not None else Failure(_broken(error), sent=True)


def _not_sent(error: Exception) -> Failure | None:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return Failure(_certificate_problem(error.certificate_error), sent=False, lasting=True)
    if isinstance(error, aiohttp.ClientConnectorSSLError):
        return Failure(_tls_problem(error), sent=False, lasting=True)
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return Failure(f"the proxy refused to connect: {error.status} {error.message}", sent=False)
    if isinstance(error, aiohttp.ClientProxyConnectionError):
        return Failure(f"the proxy cannot be reached: {_os_words(error.os_error)}", sent=False)
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return Failure(f"the host name does not resolve: {_os_words(error.os_error)}", sent=False)
    if isinstance(error, aiohttp.ClientConnectorError):
        return Failure(_os_words(error.os_error), sent=False)
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return Failure("no connection within the time limit", sent=False)
    return None


def _broken(error: Exception) -> str:
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "the server closed the connection without an answer"
    if isinstance(error, aiohttp.ClientPayloadError):
        return "the connection ended in the middle of the answer"
    if isinstance(error, aiohttp.ClientResponseError):
        return f"what came is no HTTP: {error.message.splitlines()[0] if error.message else 'no status line'}"
    if isinstance(error, aiohttp.SocketTimeoutError):
        return "nothing came within the time limit"
    if isinstance(error, TimeoutError):
        return "the answer was not complete within the time limit"
    return _os_words(error)


def _os_words(error: Exception) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, ConnectionResetError):
        return "connection reset by peer"
    text = (error.strerror if isinstance(error, OSError) else "") or str(error) or type(error).__name__
    return text[:1].lower() + text[1:]


def _certificate_problem(error: Exception) -> str:
    if not isinstance(error, ssl.SSLCertVerificationError):
        return f"the server's certificate is not accepted: {error}"
    message = error.verify_message.rstrip(".")
    if error.verify_code in _WRONG_NAME:
        return f"the server's certificate has another name: {message}; tls-server-name says which name to expect"
    return f"the server's certificate is not trusted: {message}; certificate-authority names the CA to trust"


def _tls_problem(error: aiohttp.ClientConnectorSSLError) -> str:
    reason = getattr(error.os_error, "reason", None) or str(error.os_error)
    hint = "; does the server speak plain http?" if reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE") else ""
    return f"no TLS connection: {reason}{hint}"
