"""How ElasticQuotas stand: what is used of them, and who borrows from whom."""

from collections.abc import Iterator

from stowplan.plugins import QuotaUse
from stowplan_scheduler_plugins.elastic_quotas import UNLIMITED, Quotas

_NAMED = 3


def quota_uses(quotas: Quotas) -> Iterator[QuotaUse]:
    """For each quota, the resources that it names or whose pods use them."""
    lenders = {name: _lenders(quotas, name) for name in {*quotas.min, *quotas.used}}
    for quota in quotas:
        for name in sorted({*quota.min, *quota.max, *quota.used}):
            used, least, most = quota.used.get(name, 0), quota.min.get(name, 0), quota.max.get(name, UNLIMITED)
            if used or least or 0 < most < UNLIMITED:
                yield QuotaUse(
                    quota=quota.namespace,
                    resource=name,
                    used=used,
                    least=least,
                    most=None if most == UNLIMITED else most,
                    lenders=lenders.get(name, ()) if used > least else (),
                )


def _lenders(quotas: Quotas, name: str) -> tuple[str, ...]:
    """Those that leave most of what they are guaranteed to others."""
    left = {one.namespace: one.min.get(name, 0) - one.used.get(name, 0) for one in quotas}
    found = sorted((namespace for namespace, more in left.items() if more > 0), key=lambda one: (-left[one], one))
    return tuple(found[:_NAMED])
