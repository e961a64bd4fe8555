"""Which pods may be evicted for a gang that is scheduled as a whole, so that it gets what its quota guarantees.

The rules are those for single pods (`quota_evictions`), for the requests of as many pods as have to start together. Of
what others have borrowed, the least important pods are taken back.

Upstream: none.
"""

from collections.abc import Sequence
from dataclasses import replace

from stowplan.plugins import PodInfo
from stowplan_scheduler_plugins.elastic_quotas import Quota, Quotas, minus, plus, request_of


class GroupEvictions:
    def __init__(self, quotas: Quotas, pods: Sequence[PodInfo], least: int) -> None:
        """`least`: how many of the pods have to start together."""
        self._quotas = quotas
        self._own = quotas.get(pods[0].namespace)
        self._priority = min(pod.priority for pod in pods)
        self._is_borrower = self._own is not None and self._own.over_min_with(plus(*map(request_of, pods[:least])))
        #: What would be left of others' use.
        self._left: dict[str, Quota] = {}

    def may_evict(self, victim: PodInfo) -> bool:
        """To be asked about the least important pods first; those it answers True for count as evicted."""
        quota, namespace = self._quotas.get(victim.namespace), victim.namespace
        if quota is self._own:
            # Those of namespaces without quotas, too.
            return (quota is None or self._is_borrower) and victim.priority < self._priority
        if quota is None or self._own is None or self._is_borrower:
            return False
        left = self._left.get(namespace, quota)
        if not left.over_min():
            return False
        self._left[namespace] = replace(left, used=minus(left.used, request_of(victim)))
        return True
