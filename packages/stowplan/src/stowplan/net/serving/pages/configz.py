"""/configz: the configuration in effect.

Upstream: staging/src/k8s.io/component-base/configz.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stowplan.net.serving.requests.forms import as_json
from stowplan.net.serving.requests.messages import JSON, NO_SNIFF, Page, Request, Response

if TYPE_CHECKING:
    from collections.abc import Callable


def configz_page(configuration: Callable[[], dict[str, Any]]) -> Page:
    """`configuration` returns a KubeSchedulerConfiguration with kind and apiVersion."""

    def page(request: Request) -> Response:
        return Response(as_json({"componentconfig": configuration()}), content_type=JSON, headers=NO_SNIFF)

    return page
