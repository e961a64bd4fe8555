"""Authentication settings from ConfigMap kube-system/extension-apiserver-authentication.

It is read at startup and watched afterwards; each valid part replaces the previous one. An unreachable API server
delays startup by a few seconds at most, if that is tolerated, and is retried in the background. Permission to read this
one object is sufficient.

Parity: if the lookup at startup failed, upstream never looks for front proxies again.

Upstream: staging/src/k8s.io/apiserver/pkg/server/options/authentication_dynamic_request_header.go,
pkg/authentication/request/headerrequest/requestheader_controller.go.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from stowplan.kube.api.api_errors import Forbidden, NotFound
from stowplan.kube.api.port import Api, Change
from stowplan.kube.api.users import ConfigMap
from stowplan.kube.klog import get_logger
from stowplan.kube.timing.times import Times
from stowplan.net.client.list_watch import Failing, ListWatch, Report
from stowplan.net.serving.authentication.authorities import Bundle, BundleError
from stowplan.net.serving.authentication.request_header import RequestHeaders
from stowplan.net.serving.reviewer import FAILURES, answer_within

_log = get_logger(__name__)

NAMESPACE = "kube-system"
NAME = "extension-apiserver-authentication"
CLIENT_CA = "client-ca-file"
PROXY_CA = "requestheader-client-ca-file"

#: Upstream's name of the controller for front-proxy headers.
_CONTROLLER = "RequestHeaderAuthRequestController"

_RIGHTS_MISSING = (
    f"Unable to get configmap/{NAME} in {NAMESPACE}.  Usually fixed by 'kubectl create rolebinding -n {NAMESPACE} "
    "ROLEBINDING_NAME --role=extension-apiserver-authentication-reader --serviceaccount=YOUR_NS:YOUR_SA'"
)
_strings = msgspec.json.Decoder(list[str] | None)


class LookupFailed(Exception):
    """The ConfigMap could not be read."""


class ClusterAuthentication:
    """Reads only the wanted parts: others may be set by flags."""

    def __init__(self, api: Api, *, times: Times, wanted: frozenset[str]) -> None:
        """`wanted`: CLIENT_CA, PROXY_CA or both."""
        self._api = api
        self._times = times
        self.client_authorities = Bundle(f"client-ca::{NAMESPACE}::{NAME}::{CLIENT_CA}")
        self.proxy_authorities = Bundle(f"client-ca::{NAMESPACE}::{NAME}::{PROXY_CA}")
        bundles = {CLIENT_CA: self.client_authorities, PROXY_CA: self.proxy_authorities}
        self._bundles = {key: bundle for key, bundle in bundles.items() if key in wanted}
        self._headers = RequestHeaders()

    def headers(self) -> RequestHeaders:
        return self._headers

    async def look(self, *, seconds: float) -> None:
        """Read the current version; a missing one is valid. Raises LookupFailed."""
        try:
            found = await answer_within(seconds, self._api.get(ConfigMap, NAME, namespace=NAMESPACE), times=self._times)
        except NotFound:
            return
        except FAILURES as error:
            if isinstance(error, Forbidden):
                _log.warning(_RIGHTS_MISSING)
            raise LookupFailed(str(error)) from None
        self.take(found)

    async def follow(self) -> None:
        """Follow changes until cancelled."""
        watch = ListWatch(
            self._api,
            ConfigMap,
            times=self._times,
            report=_report,
            namespace=NAMESPACE,
            field_selector=f"metadata.name={NAME}",
            on_synced=lambda: _log.info("Caches are synced"),
        )
        self._log_controllers("Starting")
        _log.info("Waiting for caches to sync")
        try:
            await watch.run(self._changed)
        finally:
            self._log_controllers("Shutting down")

    def _log_controllers(self, doing: str) -> None:
        """Log that the parts are followed from now on, or no longer; upstream has a controller for each."""
        for bundle in self._bundles.values():
            _log.info(f"{doing} controller", name=bundle.name)
        if PROXY_CA in self._bundles:
            _log.v(0).plain(f"{doing} {_CONTROLLER}")

    def take(self, found: ConfigMap) -> None:
        for key, bundle in self._bundles.items():
            try:
                bundle.load(found.data.get(key, "").encode())
            except BundleError as error:
                _complain(error)
        if PROXY_CA in self._bundles:
            try:
                self._take_headers(_headers_in(found))
            except ValueError as error:
                _complain(error)

    def _take_headers(self, headers: RequestHeaders) -> None:
        if headers != self._headers:
            _log.v(2).plain(f"Loaded a new request header values for {_CONTROLLER}")
        self._headers = headers

    def _changed(self, changes: Sequence[Change[ConfigMap]]) -> None:
        for change in changes:
            # The content of a deleted ConfigMap stays valid until it is replaced.
            if change.new is not None:
                self.take(change.new)


def _headers_in(found: ConfigMap) -> RequestHeaders:
    return RequestHeaders(
        usernames=_list(found, "requestheader-username-headers"),
        uids=_list(found, "requestheader-uid-headers"),
        groups=_list(found, "requestheader-group-headers"),
        extra_prefixes=_list(found, "requestheader-extra-headers-prefix"),
        allowed_names=_list(found, "requestheader-allowed-names"),
    )


def _list(found: ConfigMap, key: str) -> tuple[str, ...]:
    text = found.data.get(key)
    if not text:
        return ()
    try:
        return tuple(_strings.decode(text) or ())
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise ValueError(f"{key} is not a JSON list of strings: {error}") from None


def _complain(error: ValueError) -> None:
    _log.error(f"{NAMESPACE}/{NAME} failed with : {error}", "Unhandled Error")


def _report(report: Report) -> None:
    if isinstance(report, Failing):
        _log.error(report.why, "Failed to watch the authentication configuration", configmap=f"{NAMESPACE}/{NAME}")
    else:
        _log.info(str(report))
