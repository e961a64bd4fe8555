"""Field ownership and server-side apply.

Objects and field sets are plain JSON values. `field_sets` has set operations, `comparison` defines what a change is,
`updates` and `applying` implement the two kinds of writes.

Upstream: k8s.io/apimachinery/pkg/util/managedfields, sigs.k8s.io/structured-merge-diff/v6.
"""

from __future__ import annotations

from stowplan_cluster.apiserver.managed_fields.applying import apply
from stowplan_cluster.apiserver.managed_fields.updates import keep_times, record_update

__all__ = ["apply", "keep_times", "record_update"]
