"""Per-request authentication headers, and how to refresh them after a 401.

A kubeconfig user authenticates with an `Authorization` header (fixed, from a rotated file, or from an exec plugin),
with a client certificate, or with both, and may impersonate another user. `UserCredentials` combines these three parts:

- an `AuthorizationSource` returns the header and is notified of a 401;
- a `CertificateSource` returns the certificate that `TlsSettings` loads;
- the impersonation headers are constant.

Upstream: staging/src/k8s.io/client-go/transport/round_trippers.go and token_source.go.
"""

from __future__ import annotations

import base64
import logging
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from multidict import CIMultiDict, CIMultiDictProxy

from stowplan.kube.config.config_errors import os_error_text
from stowplan.net.client.client_errors import ClientConfigError, CredentialsError
from stowplan.net.client.endpoint.tls import CertificateSource, ClientCertificate, NoCertificate

if TYPE_CHECKING:
    from multidict import MultiMapping


_log = logging.getLogger(__name__)

#: Half of the time between the kubelet's renewal of a projected token and the old token's expiration, minus a margin.
_SECONDS_BETWEEN_READS = 50.0
_SECONDS_AFTER_FAILURE = 1.0

_UNSENDABLE = re.compile(r"[\x00-\x20\x7f]")


class AuthorizationSource(Protocol):
    async def authorization(self) -> str | None:
        """The value of the `Authorization` header; None sends none."""

    async def refused(self, used: str | None) -> bool: ...


class FixedAuthorization:
    """A token or password in the configuration; None: anonymous, or client certificate only."""

    def __init__(self, value: str | None = None) -> None:
        self._value = value

    async def authorization(self) -> str | None:
        return self._value

    async def refused(self, used: str | None) -> bool:
        return False


def bearer(token: str) -> str:
    return f"Bearer {token}"


def basic(username: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()


def is_sendable(token: str) -> bool:
    """Whether a header can contain the token: no spaces, line ends or control characters."""
    return not _UNSENDABLE.search(token)


class TokenFile:
    """A bearer token in a file that is read periodically, and after a 401.

    If a later read fails, the previous token is kept, as it stays valid for a while.
    """

    def __init__(self, path: str, *, where: str, clock: Callable[[], float], fallback: str = "") -> None:
        self._path = path
        self._where = where
        self._clock = clock
        #: The kubeconfig's `token`, until the file has been read.
        self._token = fallback
        self._read_again: float | None = None
        self._failing = False

    def check(self) -> TokenFile:
        """Read the token now: at startup a failure is a configuration error."""
        try:
            self.token()
        except CredentialsError as error:
            raise ClientConfigError(str(error)) from None
        return self

    async def authorization(self) -> str:
        return bearer(self.token())

    async def refused(self, used: str | None) -> bool:
        if used == bearer(self._token):
            self._read_again = None
        return await self.authorization() != used

    def token(self) -> str:
        now = self._clock()
        if self._read_again is None or now >= self._read_again:
            read = self._reread()
            self._token = read or self._token
            self._read_again = now + (_SECONDS_BETWEEN_READS if read else _SECONDS_AFTER_FAILURE)
        return self._token

    def _reread(self) -> str | None:
        """Read the token; None if that failed and there is a previous one."""
        token, problem = self._read()
        if not problem:
            self._failing = False
            return token
        if not self._token:
            raise CredentialsError(f"{self._where}: {problem}")
        if not self._failing:
            _log.warning("%s: %s; keeping the previous token", self._where, problem)
        self._failing = True
        return None

    def _read(self) -> tuple[str, str]:
        try:
            token = Path(self._path).read_text(encoding="utf-8").strip()
        except OSError as error:
            return "", os_error_text("open", self._path, error)
        except UnicodeDecodeError:
            return "", f"{self._path} is not UTF-8 text, so there is no token in it"
        if not token:
            return "", f"{self._path} is empty, expected a token"
        if not is_sendable(token):
            return "", f"{self._path} holds more than one token: there are spaces or line ends within its text"
        return token, ""


class UserCredentials:
    def __init__(
        self,
        authorization: AuthorizationSource | None = None,
        *,
        certificate: CertificateSource | None = None,
        impersonation: Iterable[tuple[str, str]] = (),
    ) -> None:
        self._authorization = authorization or FixedAuthorization()
        self._certificate = certificate or NoCertificate()
        self._impersonation = tuple(impersonation)
        self._current: str | None = None
        self._headers = self._built(None)

    def impersonating(self, user: str, uid: str, groups: Iterable[str]) -> UserCredentials:
        """The same credentials for requests in the name of another user."""
        of_uid = [("Impersonate-Uid", uid)] if uid else []
        headers = (("Impersonate-User", user), *of_uid, *(("Impersonate-Group", group) for group in groups))
        return UserCredentials(self._authorization, certificate=self._certificate, impersonation=headers)

    async def headers(self) -> MultiMapping[str]:
        """The headers of a request made now; raises CredentialsError.

        A name may occur several times (`Impersonate-Group`), so do not convert them to a dict.
        """
        value = await self._authorization.authorization()
        if value != self._current:
            self._current, self._headers = value, self._built(value)
        return self._headers

    async def refused(self, used: Mapping[str, str] | None = None) -> bool:
        """Handle a 401, and renew what can be renewed; True if a retry may succeed.

        `used` are the rejected headers, so that credentials that another request has already renewed are kept; by
        default those returned last. Raises CredentialsError like `headers`.
        """
        return await self._authorization.refused(self._current if used is None else used.get("Authorization"))

    def client_certificate(self) -> ClientCertificate | None:
        """The current client certificate; `TlsSettings.context()` loads it, and detects changes."""
        return self._certificate.client_certificate()

    def _built(self, authorization: str | None) -> CIMultiDictProxy[str]:
        headers = CIMultiDict(self._impersonation)
        if authorization is not None:
            headers["Authorization"] = authorization
        return CIMultiDictProxy(headers)
