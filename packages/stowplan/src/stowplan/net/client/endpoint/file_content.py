"""Kubeconfig data given inline or as a file that may be rewritten at any time.

Service account volumes and certificate rotation replace files of a running client. A file is checked at most once a
second, by comparing its bytes, so that neither a moved symbolic link nor a second write within a clock tick is missed.
If a file is unreadable, it is probably being replaced: the previous content stays in use.

Upstream: staging/src/k8s.io/client-go/transport (cachingCertificateLoader, ca_rotation.go).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from stowplan.net.client.client_errors import ClientConfigError

_log = logging.getLogger(__name__)

_SECONDS_BETWEEN_LOOKS = 1.0


class Content(Protocol):
    #: The file, entry and field it comes from, for messages.
    where: str

    def read(self) -> bytes:
        """The current bytes: the same object until they change."""


class InlineContent:
    def __init__(self, data: bytes, *, where: str) -> None:
        self.where = where
        self._data = data

    def read(self) -> bytes:
        return self._data


class FileContent:
    def __init__(self, path: str, *, where: str, clock: Callable[[], float]) -> None:
        self.where = f"{where} {path}"
        self._path = path
        self._clock = clock
        self._data: bytes | None = None
        self._look_again = 0.0
        self._failing = False

    def read(self) -> bytes:
        now = self._clock()
        if self._data is None or now >= self._look_again:
            self._data = self._reread(self._data)
            self._look_again = now + _SECONDS_BETWEEN_LOOKS
        return self._data

    def _reread(self, before: bytes | None) -> bytes:
        try:
            data = Path(self._path).read_bytes()
        except OSError as error:
            why = error.strerror or str(error)
            if before is None:
                raise ClientConfigError(f"{self.where}: {why}") from None
            return self._keep(before, why)
        self._failing = False
        return before if data == before else data

    def _keep(self, before: bytes, why: str) -> bytes:
        if not self._failing:
            _log.warning("%s: %s; what was read before stays in use", self.where, why)
        self._failing = True
        return before
