"""Replace the configuration of a running scheduler.

Slow work comes first, while the old configuration keeps scheduling: profiles are built, newly needed kinds are listed,
and objects are read again if extenders need them in full. Then everything switches at once, between two steps of the
engine. A failure before that leaves everything unchanged.

Only profiles, extenders and queue settings can change: the caller resets all other fields to their values at startup.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from stowplan.kube.api.port import Change
from stowplan.kube.api.types import Pod
from stowplan.kube.timing.times import within
from stowplan.scheduler.cluster.pod_info import scheduler_name_of
from stowplan.scheduler.engine.inputs import Adopted, Changes, Declined, Offered
from stowplan.scheduler.engine.watched_kinds import watched_kinds
from stowplan.scheduler.extenders.calls import kinds_wanted
from stowplan.scheduler.framework.boundary import Raised, call

if TYPE_CHECKING:
    from stowplan.drivers.live.extenders import HttpExtenderClients
    from stowplan.drivers.live.informers import Informers
    from stowplan.kube.config import Configuration
    from stowplan.kube.timing.times import Times
    from stowplan.scheduler.engine.engine import Engine
    from stowplan.scheduler.engine.inputs import Input
    from stowplan.scheduler.engine.watched_kind import WatchedKind

#: Timeout in seconds for the initial lists of new kinds.
LISTS_TIMEOUT = 60.0


class RefusedConfigurationError(Exception):
    """A configuration cannot be applied; says why."""


class Reconfiguration:
    """Applies one configuration at a time."""

    def __init__(
        self,
        engine: Engine,
        *,
        submit: Callable[[Input], None],
        informers: Informers,
        extender_clients: HttpExtenderClients,
        times: Times,
        report: Callable[[str], None],
    ) -> None:
        self._engine = engine
        self._submit = submit
        self._informers = informers
        self._documents = extender_clients.documents
        self._extender_clients = extender_clients
        self._times = times
        self._report = report
        self._under_way = False

    async def apply(self, configuration: Configuration) -> None:
        """Apply the configuration; raises RefusedConfigurationError, without having changed anything."""
        if self._under_way:
            raise RefusedConfigurationError("another configuration is being applied")
        self._under_way = True
        try:
            with self._offered(configuration):
                kinds = self._kinds()
                await self._fetched(kinds, configuration)
                # No other task runs from here on.
                self._informers.deliver_now()
                self._extender_clients.reconfigure(configuration)
                self._submit(Adopted(self._informers.adopt(kinds)))
                self._take_in_pods()
        finally:
            self._under_way = False

    @contextmanager
    def _offered(self, configuration: Configuration) -> Iterator[None]:
        """Offer a configuration to the engine. It is adopted within the block, or declined at its end."""
        profiles = self._engine.profiles
        self._submit(Offered(configuration.shown()))
        if profiles.offer is None:
            raise RefusedConfigurationError(profiles.refusal)
        try:
            yield
        finally:
            if profiles.offer is not None:
                self._submit(Declined())

    def _kinds(self) -> Sequence[WatchedKind]:
        offer = self._engine.profiles.offer
        assert offer is not None, "it was just made"
        kinds = call(partial(watched_kinds, report=self._report), offer.frameworks.values(), check=None, failed=Raised)
        if isinstance(kinds, Raised):
            # A user plugin whose declaration of kinds raises.
            raise RefusedConfigurationError(f"{type(kinds.cause).__name__}: {kinds.cause}") from kinds.cause
        return kinds

    async def _fetched(self, kinds: Sequence[WatchedKind], configuration: Configuration) -> None:
        """List the kinds that the new profiles and extenders need."""
        more = kinds_wanted(configuration) - self._documents.kinds
        self._documents.keep_also(more)
        try:
            await within(LISTS_TIMEOUT, self._informers.try_out(kinds), sleep=self._times.sleep)
            await within(LISTS_TIMEOUT, self._informers.relist(more), sleep=self._times.sleep)
        except TimeoutError:
            late = ", ".join(self._informers.give_up()) or "the objects that extenders are sent whole"
            raise RefusedConfigurationError(
                f"{late}: not listed within {LISTS_TIMEOUT:g} s, and its plugins need it"
            ) from None

    def _take_in_pods(self) -> None:
        """Submit the pods that were ignored as long as their schedulerName was not a profile."""
        profiles, state = self._engine.frameworks, self._engine.state
        missed = [
            Change(None, pod)
            for pod in self._informers.known(Pod)
            if not pod.spec.node_name
            and scheduler_name_of(pod) in profiles
            and state.pending.by_uid(pod.metadata.uid) is None
            and not state.is_assumed(pod.metadata.uid)
        ]
        if missed:
            self._submit(Changes(Pod, missed))
