"""Whether kube-scheduler 1.36 itself would start with a configuration that works here.

It reads v1 alone, and lacks the plugins that Kubernetes has removed and Stowplan keeps. Out-of-tree plugins count as
present: a file that needs them says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.kube.config.errors import ConfigError
from stowplan.kube.config.header import read_header
from stowplan.kube.config.load import load_upgraded
from stowplan.kube.config.older.upgrade import Upgrade
from stowplan.kube.config.schema import API_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stowplan.kube.config.declaration import Declarations
    from stowplan.kube.config.documents import Document
    from stowplan.kube.config.features import FeatureGates
    from stowplan.kube.config.types import Configuration


_NAME = "kube-scheduler 1.36"


def refusals(
    what: str, document: Document, configuration: Configuration, plugins: Declarations, features: FeatureGates
) -> Iterator[str]:
    """A message with kube-scheduler's own error, unless it would start with this document, which is valid here."""
    its_own = {name: declaration for name, declaration in plugins.items() if declaration.in_kube_scheduler}
    try:
        load_upgraded(Upgrade(document=document), plugins=its_own, features=features)
    except ConfigError as error:
        running = {ref.name for profile in configuration.profiles for refs in profile.points.values() for ref in refs}
        extra = ", ".join(sorted(running - its_own.keys()))
        if read_header(document.value, document.text).api_version != API_VERSION:
            why = "it reads KubeSchedulerConfiguration v1 alone, which stowplan config convert writes"
        else:
            why = f"only Stowplan has {extra}"
        yield f"{_NAME} refuses {what} ({why}): {error}"
