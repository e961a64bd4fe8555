"""Field ownership and server-side apply.

Objects, types and sets of fields all have the shape they have in JSON; see `field_sets` for the sets,
`comparison` for what counts as a change, `updates` and `applying` for the two ways to write.

Upstream: k8s.io/apimachinery/pkg/util/managedfields, sigs.k8s.io/structured-merge-diff/v6.
"""

from __future__ import annotations

from stowplan_cluster.apiserver.managed_fields.applying import apply
from stowplan_cluster.apiserver.managed_fields.times import keep_times
from stowplan_cluster.apiserver.managed_fields.updates import record_update

__all__ = ["apply", "keep_times", "record_update"]
