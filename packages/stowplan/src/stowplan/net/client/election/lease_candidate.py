"""Coordinated leader election: the LeaseCandidate of a scheduler.

A LeaseCandidate has our version. From time to time the server pings all candidates of a Lease by setting `pingTime`;
those that answer with a `renewTime` that is not earlier can be selected. A candidate that is not renewed for half an
hour is dropped, so it is renewed every five minutes in any case.

Parity: upstream writes its own time, and keeps answering if that is earlier than the server's; ours is the later of
both. Upstream waits for the next renewal before it recreates a deleted candidate.

Upstream: staging/src/k8s.io/client-go/tools/leaderelection/leasecandidate.go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from stowplan.kube.api.api_errors import ApiError
from stowplan.kube.api.decode import DecodeError
from stowplan.kube.api.meta import ObjectMeta, micro_timestamp, parse_timestamp
from stowplan.kube.api.policy import LeaseCandidate, LeaseCandidateSpec
from stowplan.kube.api.port import Api, Change, Unreachable
from stowplan.kube.klog import get_logger
from stowplan.kube.timing.backoff import REQUESTING, Backoff
from stowplan.kube.timing.times import Times, within
from stowplan.net.client.list_watch import Failing, ListWatch, Report

_log = get_logger(__name__)

#: The namespace of candidates, whatever that of the Lease.
NAMESPACE = "kube-system"
#: The Lease in candidates, whatever the name of the Lease in the election.
LEASE_NAME = "kube-scheduler"
STRATEGY = "OldestEmulationVersion"
#: Seconds between renewals without a ping.
RENEWAL = 300.0

_LOGGER = "leasecandidate"


class LeaseCandidates:
    """The candidate of a process: `run` it along with the elector; `synced` is set once the server's state is known."""

    def __init__(
        self,
        api: Api,
        *,
        identity: str,
        lease_name: str = LEASE_NAME,
        binary_version: str,
        emulation_version: str,
        strategy: str = STRATEGY,
        times: Times,
    ) -> None:
        self._api = api
        self._times = times
        self._wanted = LeaseCandidate(
            metadata=ObjectMeta(name=identity, namespace=NAMESPACE),
            spec=LeaseCandidateSpec(
                lease_name=lease_name,
                binary_version=binary_version,
                emulation_version=emulation_version,
                strategy=strategy,
            ),
        )
        self._watch = ListWatch(
            api,
            LeaseCandidate,
            times=times,
            report=_report,
            namespace=NAMESPACE,
            field_selector=f"metadata.name={identity}",
        )
        self._stored: LeaseCandidate | None = None
        self._pinged = asyncio.Event()
        self._backoff = Backoff(REQUESTING, clock=times.clock, random=times.random)

    @property
    def synced(self) -> asyncio.Event:
        return self._watch.synced

    async def run(self) -> None:
        """Keep the candidate renewed until cancelled. It is not deleted: the server drops it."""
        watching = asyncio.create_task(self._watch.run(self._changed))
        renewing = asyncio.create_task(self._renew())
        try:
            await asyncio.gather(watching, renewing)
        finally:
            watching.cancel()
            renewing.cancel()
            await asyncio.gather(watching, renewing, return_exceptions=True)

    def _changed(self, changes: Sequence[Change[LeaseCandidate]]) -> None:
        self._stored = changes[-1].new
        if self._stored is None or _is_pinged(self._stored.spec):
            self._pinged.set()

    async def _renew(self) -> None:
        await self.synced.wait()
        while True:
            self._pinged.clear()
            if await self._ensure():
                self._backoff.reset()
                with suppress(TimeoutError):
                    await within(RENEWAL, self._pinged.wait(), sleep=self._times.sleep)
            else:
                await self._times.sleep(self._backoff.next())

    async def _ensure(self) -> bool:
        stored = self._stored
        try:
            if stored is None:
                _log.v(2).info("Creating lease candidate", logger=_LOGGER)
                await self._api.create(self._renewed(self._wanted))
                _log.v(2).info("Created lease candidate", logger=_LOGGER)
            else:
                _log.v(2).info("Lease candidate exists. Renewing.", logger=_LOGGER)
                await self._api.update(self._renewed(stored))
        except (ApiError, Unreachable, DecodeError) as error:
            _log.error(error, "Ensuring lease failed", logger=_LOGGER)
            return False
        return True

    def _renewed(self, candidate: LeaseCandidate) -> LeaseCandidate:
        spec, now = candidate.spec, self._times.wall_clock()
        if spec.ping_time:
            now = max(now, parse_timestamp(spec.ping_time))
        renewed = msgspec.structs.replace(spec, renew_time=micro_timestamp(now))
        return msgspec.structs.replace(candidate, spec=renewed)


def _is_pinged(spec: LeaseCandidateSpec) -> bool:
    if not spec.ping_time:
        return False
    return not spec.renew_time or parse_timestamp(spec.ping_time) > parse_timestamp(spec.renew_time)


def _report(report: Report) -> None:
    if isinstance(report, Failing):
        _log.error(report.why, "Failed to watch", logger=_LOGGER, resource=report.resource)
    else:
        _log.info(str(report), logger=_LOGGER)
