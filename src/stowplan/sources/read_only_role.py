"""The minimal ClusterRole for following a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.api.resources import resource_of
from stowplan.api.yaml_text import to_yaml
from stowplan.engine.engine import Engine
from stowplan.engine.watched_kinds import watched_kinds

if TYPE_CHECKING:
    from stowplan.config import Configuration
    from stowplan.framework.runtime.registry import Registry


class _NoMeter:
    @staticmethod
    def clock() -> float:
        return 0.0

    @staticmethod
    def random() -> float:
        return 0.0


def role_text(configuration: Configuration, registry: Registry, *, name: str) -> str:
    """As YAML for `kubectl apply`."""
    engine = Engine(configuration, registry=registry, now=0.0, meter=_NoMeter())
    groups: dict[str, list[str]] = {}
    for watched in watched_kinds(engine.frameworks.values(), report=lambda problem: None):
        resource = resource_of(watched.kind)
        groups.setdefault(resource.group, []).append(resource.plural)
    rules = [
        {"apiGroups": [group], "resources": sorted(plurals), "verbs": ["list", "watch"]}
        for group, plurals in sorted(groups.items())
    ]
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": rules,
    }
    return to_yaml(role)
