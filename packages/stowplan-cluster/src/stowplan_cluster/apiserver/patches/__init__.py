"""JSON patch, JSON merge patch and strategic merge patch.

Each function takes the object and the decoded patch, changes neither, and returns the patched object; a patch that does
not apply raises the reference's ApiError. Server-side apply is in `managed_fields`.

Upstream: k8s.io/apiserver/pkg/endpoints/handlers/patch.go.
"""

from __future__ import annotations

from stowplan_cluster.apiserver.patches.json_patch import apply_json_patch, apply_merge_patch
from stowplan_cluster.apiserver.patches.strategic_merge import apply_strategic_merge_patch

__all__ = ["apply_json_patch", "apply_merge_patch", "apply_strategic_merge_patch"]
