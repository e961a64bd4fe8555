"""Describe requests without a response: the cause, whether it may have been processed, whether to retry.

Only a failure before the connection was established guarantees that a request was not processed. aiohttp indicates that
by the class of its error (`ClientConnectorError` and subclasses); our own connections know it themselves.
"""

from __future__ import annotations

import socket
import ssl

import aiohttp

from stowplan.kube.structs import PlainStruct

#: What a request with aiohttp can raise.
FAILURES = (aiohttp.ClientError, TimeoutError, OSError)

SILENT = "nothing came within the time limit"
INCOMPLETE = "the answer was not complete within the time limit"
CUT_OFF = "the connection ended in the middle of the answer"
NO_ANSWER = "the server closed the connection without an answer"

_WRONG_NAME = (62, 64)  # X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH


class Failure(PlainStruct, frozen=True):
    why: str
    #: Whether the request may have reached the server.
    sent: bool
    #: Whether it will fail again until something is changed.
    lasting: bool = False


class NotAnswered(Exception):
    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.why)
        self.failure = failure


def broken(why: str, *, lasting: bool = False) -> NotAnswered:
    """The error for a request that may have reached the server."""
    return NotAnswered(Failure(why, sent=True, lasting=lasting))


def not_http(why: str) -> str:
    return f"the response is not HTTP: {why}"


# --- before the connection


def not_connected(error: Exception) -> Failure:
    if isinstance(error, ssl.SSLCertVerificationError):
        return Failure(_certificate_problem(error), sent=False, lasting=True)
    if isinstance(error, ssl.SSLError):
        return Failure(_tls_problem(error), sent=False, lasting=True)
    if isinstance(error, socket.gaierror | UnicodeError):
        return Failure(f"the host name does not resolve: {os_error_message(error)}", sent=False)
    if isinstance(error, TimeoutError):
        return Failure("no connection within the time limit", sent=False)
    return Failure(os_error_message(error), sent=False)


def os_error_message(error: Exception) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, ConnectionResetError):
        return "connection reset by peer"
    text = (error.strerror if isinstance(error, OSError) else "") or str(error) or type(error).__name__
    return text[:1].lower() + text[1:]


def _certificate_problem(error: ssl.SSLCertVerificationError) -> str:
    message = error.verify_message.rstrip(".")
    if error.verify_code in _WRONG_NAME:
        return f"the server's certificate has another name: {message}; tls-server-name says which name to expect"
    return f"the server's certificate is not trusted: {message}; certificate-authority names the CA to trust"


def _tls_problem(error: ssl.SSLError) -> str:
    reason = error.reason or str(error)
    hint = "; does the server speak plain http?" if reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE") else ""
    return f"no TLS connection: {reason}{hint}"


# --- aiohttp's errors


def failure_of(error: Exception) -> Failure:
    not_sent = _not_sent(error)
    return not_sent if not_sent is not None else Failure(_broken(error), sent=True)


def _not_sent(error: Exception) -> Failure | None:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return not_connected(error.certificate_error)
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return Failure(f"the proxy refused to connect: {error.status} {error.message}", sent=False)
    if isinstance(error, aiohttp.ClientProxyConnectionError):
        return Failure(f"the proxy cannot be reached: {os_error_message(error.os_error)}", sent=False)
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return Failure(f"the host name does not resolve: {os_error_message(error.os_error)}", sent=False)
    if isinstance(error, aiohttp.ClientConnectorError):
        return not_connected(error.os_error)
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return not_connected(error)
    return None


def _broken(error: Exception) -> str:
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return NO_ANSWER
    if isinstance(error, aiohttp.ClientPayloadError):
        return CUT_OFF
    if isinstance(error, aiohttp.ClientResponseError):
        return not_http(error.message.splitlines()[0] if error.message else "no status line")
    if isinstance(error, aiohttp.SocketTimeoutError):
        return SILENT
    return INCOMPLETE if isinstance(error, TimeoutError) else os_error_message(error)
