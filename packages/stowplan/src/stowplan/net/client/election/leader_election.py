"""Leader election: at most one of the candidates for a Lease is active.

The Lease names its holder, who renews it every `retryPeriod`. Another candidate may acquire it after it has seen no
renewal for the lease's duration, and the holder stops `renewDeadline` after its last renewal, which is sooner. So there
may be a period without a leader, but never one with two, whatever the clocks show:

- Times of different machines are never compared. A candidate measures, by its own monotonic clock, how long ago *it*
  saw the record change; the times in the record are informational, and change with each renewal.
- A renewal counts from when it was *sent*: others cannot have seen it earlier. A renewal whose response is lost does
  not count, although it may keep others waiting longer.
- `is_leader` checks the clock. A process that was suspended, or whose event loop hung, is no longer the leader as soon
  as it resumes, before any of its tasks has noticed.
- Writes name the version that they replace, so a late one has no effect.

In a *coordinated* election the API server selects the holder, which may only renew, and is told by `preferredHolder`
that its term is over (for candidates see `lease_candidate`). There the server does compare `renewTime` with its clock.

Parity: upstream counts the deadline from its first failure, keeps acting until then even if another holds the Lease by
then, checks an expired Lease at its next retry instead of at the expiration, and, when it releases a Lease that it
could not read for a while, takes it from its current holder.

Upstream: staging/src/k8s.io/client-go/tools/leaderelection.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import msgspec

from stowplan.kube.api.api_errors import ApiError, Conflict, NotFound
from stowplan.kube.api.decode import DecodeError
from stowplan.kube.api.meta import ObjectMeta, micro_timestamp
from stowplan.kube.api.policy import Lease, LeaseSpec
from stowplan.kube.api.port import Api, Unreachable
from stowplan.kube.klog import get_logger
from stowplan.kube.timing.times import Times, within
from stowplan.net.client.client_errors import OutcomeUnknown

if TYPE_CHECKING:
    from stowplan.kube.config import LeaderElection
    from stowplan.kube.metrics.client_metrics import ClientMetrics
    from stowplan.net.client.events.event_recorder import Recorder

_log = get_logger(__name__)
T = TypeVar("T")

#: A candidate that is not the leader waits between one and 1 + this many retry periods.
JITTER_FACTOR = 1.2
#: The election's name in metrics and the health check, whatever the Lease's name.
ELECTION = "kube-scheduler"
_SECOND = 1_000_000_000
#: Maximum number of attempts to release the Lease if it changes concurrently.
_RELEASES = 3

_FAILURES = (ApiError, Unreachable, DecodeError)


class LeadershipLost(Exception):
    """Another process may lead now: stop everything that only the leader may do immediately."""


def check_lease_settings(config: LeaderElection) -> None:
    duration, deadline, retry = config.lease_duration, config.renew_deadline, config.retry_period
    problem = ""
    if duration <= deadline:
        problem = "leaseDuration must be greater than renewDeadline"
    elif deadline <= int(JITTER_FACTOR * retry):
        problem = "renewDeadline must be greater than retryPeriod*JitterFactor"
    elif duration <= 0:
        problem = "leaseDuration must be greater than zero"
    elif deadline <= 0:
        problem = "renewDeadline must be greater than zero"
    elif retry <= 0:
        problem = "retryPeriod must be greater than zero"
    if problem:
        raise ValueError(f"couldn't create leader elector: {problem}")


def request_timeout(config: LeaderElection) -> float:
    """Timeout in seconds of one request of the election; leaves time for a retry."""
    return max(1.0, config.renew_deadline.seconds / 2)


class LeaderElector:
    """Call `acquire`, then `renew` until it raises LeadershipLost or is cancelled, then `release`.

    Check `is_leader` before everything that only the leader may do.
    """

    def __init__(
        self,
        api: Api,
        config: LeaderElection,
        *,
        identity: str,
        times: Times,
        recorder: Recorder | None = None,
        metrics: ClientMetrics | None = None,
        coordinated: bool = False,
    ) -> None:
        check_lease_settings(config)
        self._api = api
        self._identity = identity
        self._times = times
        self._recorder = recorder
        self._metrics = metrics
        self._attempt = self._try_coordinated if coordinated else self._try
        self._coordinated = coordinated
        self._name, self._namespace = config.resource_name, config.resource_namespace
        self._lock = f"{self._namespace}/{self._name}"
        self._lease_duration = config.lease_duration.seconds
        self._record_duration = int(config.lease_duration) // _SECOND
        self._retry_period = config.retry_period.seconds
        self._renew_deadline = config.renew_deadline.seconds
        self._timeout = request_timeout(config)
        #: The Lease as last read or written; None if there is none or it was never read.
        self._lease: Lease | None = None
        #: The record when it was last seen to change, and when that was.
        self._record = LeaseSpec()
        self._observed = times.clock()
        #: When the last successful claim was sent, and until when it is valid if the record names us.
        self._claimed_at = float("-inf")
        self._deadline = float("-inf")
        #: When responses are of no use any more.
        self._give_up = float("inf")
        #: Whether the Lease may name us, even if the response is unknown.
        self._claimed = False
        self._leading = False
        self._show_status(leading=False)

    # -- state ---------------------------------------------------------------------------------------------------------

    @property
    def is_leader(self) -> bool:
        return self._names_us and self._times.clock() < self._deadline

    @property
    def leader(self) -> str:
        """The last known holder of the Lease; "" for none."""
        return self._record.holder_identity or ""

    def check(self, tolerance: float) -> str | None:
        """The health check's error: a leader has not renewed for so long that it should have exited."""
        if self._names_us and self._times.clock() - self._observed > self._lease_duration + tolerance:
            return f"failed election to renew leadership on lease {ELECTION}"
        return None

    @property
    def _names_us(self) -> bool:
        return self.leader == self._identity

    @property
    def _expiry(self) -> float:
        """When the last seen record expires for other candidates."""
        return self._observed + (self._record.lease_duration_seconds or 0)

    # -- the election -------------------------------------------------------------------------------------------------

    async def acquire(self) -> None:
        """Return once this process leads."""
        _log.info("Attempting to acquire leader lease...", lock=self._lock)
        while True:
            await self._attempt()
            if self.is_leader:
                break
            _log.v(4).info("Failed to acquire lease", lock=self._lock)
            await self._times.sleep(self._pause())
        self._leading = True
        self._record_event("became leader")
        self._show_status(leading=True)
        _log.info("Successfully acquired lease", lock=self._lock)

    async def renew(self) -> NoReturn:
        """Renew until that fails for too long, or another process holds the Lease: then raise LeadershipLost."""
        due = self._claimed_at + self._retry_period
        try:
            while True:
                now = self._times.clock()
                if now >= self._deadline:
                    self._lose("context deadline exceeded")
                if now < due:
                    await self._times.sleep(min(due, self._deadline) - now)
                    continue
                due = now + self._retry_period
                self._give_up = self._deadline
                if await self._attempt():
                    due = self._claimed_at + self._retry_period
                    _log.v(5).info("Successfully renewed lease", lock=self._lock)
                elif self.leader and not self._names_us:
                    self._lose(f"the lease is held by {self.leader}")
        finally:
            self._give_up = float("inf")

    async def release(self) -> None:
        """Release the Lease if we hold it, so that the next leader need not wait. All leader work must have ended."""
        self._deadline = float("-inf")
        try:
            if self._claimed:
                self._give_up = self._times.clock() + self._renew_deadline
                await self._give_back()
        finally:
            self._give_up = float("inf")
            self._stop_leading()

    def _pause(self) -> float:
        """Wait until the next try, or an earlier expiration."""
        pause = self._retry_period * (1.0 + JITTER_FACTOR * self._times.random())
        remaining = self._expiry - self._times.clock()
        if remaining > 0 and self.leader and not self._coordinated:
            return min(pause, remaining)
        return pause

    def _lose(self, why: str) -> NoReturn:
        _log.info("Failed to renew lease", lock=self._lock, err=why)
        self._deadline = float("-inf")
        self._stop_leading()
        raise LeadershipLost(why)

    def _stop_leading(self) -> None:
        if self._leading:
            self._leading = False
            self._show_status(leading=False)
            self._record_event("stopped leading")

    # -- one try ------------------------------------------------------------------------------------------------------

    async def _try(self) -> bool:
        """Acquire or renew the Lease; return whether we hold it."""
        if self._lease is not None and self._names_us and self._times.clock() < self._expiry:
            try:
                await self._write(self._lease, self._renewed(self._record))
            except _FAILURES as error:
                message = "Failed to update lease optimistically, falling back to slow path"
                _log.v(2).info(message, lock=self._lock, err=error)
            else:
                return True
        try:
            lease = await self._read()
        except NotFound:
            return await self._create()
        except _FAILURES as error:
            _log.error(error, "Error retrieving lease lock", lock=self._lock)
            return False
        if self.leader and not self._names_us and self._times.clock() < self._expiry:
            _log.v(4).info("Lease is held by and has not yet expired", lock=self._lock, holder=self.leader)
            return False
        if self._names_us:
            self._count_slow_path()
        return await self._update(lease, self._next_record(), "Failed to update lease")

    async def _try_coordinated(self) -> bool:
        """Renew the Lease if the API server has selected us; return whether it did."""
        try:
            lease = await self._read()
        except NotFound as error:
            _log.info("Lease lock not found", lock=self._lock, err=error)
            return False
        except _FAILURES as error:
            _log.error(error, "Error retrieving lease lock", lock=self._lock)
            return False
        if self._expiry < self._times.clock():
            _log.info("Lease has expired", lock=self._lock)
            return False
        if not self._names_us:
            _log.v(6).info("Lease is held and has not yet expired", lock=self._lock, holder=self.leader)
            return False
        if self._record.preferred_holder:
            _log.v(4).info("Lease is marked as 'end of term'", lock=self._lock)
            return False
        self._count_slow_path()
        record = msgspec.structs.replace(self._renewed(self._record), strategy=self._record.strategy)
        return await self._update(lease, record, "Failed to update lock")

    async def _update(self, lease: Lease, record: LeaseSpec, complaint: str) -> bool:
        try:
            await self._write(lease, record)
        except _FAILURES as error:
            _log.error(error, complaint, lock=self._lock)
            return False
        return True

    async def _create(self) -> bool:
        lease = Lease(metadata=ObjectMeta(name=self._name, namespace=self._namespace), spec=self._taken(transitions=0))
        try:
            await self._claim(lease, self._api.create(lease))
        except _FAILURES as error:
            _log.error(error, "Error initially creating lease lock", lock=self._lock)
            return False
        return True

    # -- records ------------------------------------------------------------------------------------------------------

    def _next_record(self) -> LeaseSpec:
        transitions = self._record.lease_transitions or 0
        return self._renewed(self._record) if self._names_us else self._taken(transitions=transitions + 1)

    def _taken(self, *, transitions: int) -> LeaseSpec:
        now = self._now()
        return LeaseSpec(
            holder_identity=self._identity,
            lease_duration_seconds=self._record_duration,
            acquire_time=now,
            renew_time=now,
            lease_transitions=transitions,
        )

    def _renewed(self, record: LeaseSpec) -> LeaseSpec:
        taken = self._taken(transitions=record.lease_transitions or 0)
        return msgspec.structs.replace(taken, acquire_time=record.acquire_time)

    def _now(self) -> str:
        now = self._times.wall_clock()
        text = micro_timestamp(now)
        # Others only see that the record changes, so it must, even if the clock was set back to the same time.
        return text if text != self._record.renew_time else micro_timestamp(now + 1e-6)

    # -- requests -----------------------------------------------------------------------------------------------------

    async def _read(self) -> Lease:
        try:
            lease = await self._answer(self._api.get(Lease, self._name, namespace=self._namespace))
        except NotFound:
            self._see(None, LeaseSpec())
            raise
        self._see(lease, lease.spec)
        return lease

    async def _write(self, lease: Lease, record: LeaseSpec) -> None:
        lease = msgspec.structs.replace(lease, spec=record)
        await self._claim(lease, self._api.update(lease))

    async def _claim(self, lease: Lease, request: Coroutine[Any, Any, Lease]) -> None:
        began = self._times.clock()
        self._claimed = True
        written = await self._answer(request)
        self._lease, self._record, self._observed = written, written.spec, self._times.clock()
        # The record's duration is in whole seconds, and may be shorter than the deadline.
        self._claimed_at = began
        self._deadline = began + min(self._renew_deadline, lease.spec.lease_duration_seconds or 0)

    def _see(self, lease: Lease | None, record: LeaseSpec) -> None:
        self._lease = lease
        if record != self._record:
            self._record, self._observed = record, self._times.clock()

    async def _answer(self, request: Coroutine[Any, Any, T]) -> T:
        """The server's response, within the deadline."""
        seconds = min(self._timeout, self._give_up - self._times.clock())
        if seconds <= 0:
            request.close()
            raise Unreachable("not sent: deadline exceeded")
        try:
            return await within(seconds, request, sleep=self._times.sleep)
        except TimeoutError:
            raise OutcomeUnknown(f"no answer within {seconds:.3g} seconds") from None

    async def _give_back(self, tries: int = _RELEASES) -> None:
        lease = await self._own_lease()
        if lease is None:
            return
        now = self._now()
        record = LeaseSpec(
            holder_identity="",
            lease_duration_seconds=1,
            acquire_time=now,
            renew_time=now,
            lease_transitions=self._record.lease_transitions or 0,
        )
        try:
            written = await self._answer(self._api.update(msgspec.structs.replace(lease, spec=record)))
        except _FAILURES as error:
            if isinstance(error, Conflict) and tries > 1:
                await self._give_back(tries - 1)
            else:
                _log.error(error, "Failed to release lease", lock=self._lock)
        else:
            self._see(written, written.spec)

    async def _own_lease(self) -> Lease | None:
        """The current Lease, if it names us."""
        try:
            lease = await self._read()
        except NotFound:
            _log.info("lease lock not found", lock=self._lock)
            return None
        except _FAILURES as error:
            _log.error(error, "error retrieving resource lock", lock=self._lock)
            return None
        return lease if self._names_us else None

    # -- logging -------------------------------------------------------------------------------------------------------

    def _record_event(self, what: str) -> None:
        if self._recorder is not None and self._lease is not None:
            note = f"{self._identity} {what}"
            self._recorder.event(
                self._lease, type_="Normal", reason="LeaderElection", action="LeaderElection", note=note
            )

    def _show_status(self, *, leading: bool) -> None:
        if self._metrics is not None:
            self._metrics.leader_election_master_status.with_label_values(ELECTION).set(float(leading))

    def _count_slow_path(self) -> None:
        if self._metrics is not None:
            self._metrics.leader_election_slowpath_total.with_label_values(ELECTION).inc()
