"""Send requests, which deciding code has as values, to the API server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stowplan.scheduler.framework.requests import Bind, Create, Delete, Patch, Read, Request, Update

if TYPE_CHECKING:
    from stowplan.kube.api.port import Api


async def response_to(api: Api, request: Request) -> Any:
    """The object that the API server returns, if any; raises what the port does."""
    match request:
        case Bind():
            return await api.bind(namespace=request.namespace, name=request.name, uid=request.uid, node=request.node)
        case Patch():
            return await api.patch(
                request.kind,
                request.name,
                request.body,
                type_=request.type_,
                namespace=request.namespace,
                subresource=request.subresource,
                lane=request.lane,
            )
        case Delete():
            return await api.delete(
                request.kind,
                request.name,
                namespace=request.namespace,
                uid=request.uid,
                resource_version=request.resource_version,
            )
        case Read():
            return await api.get(request.kind, request.name, namespace=request.namespace)
        case Create():
            return await api.create(request.obj)
        case Update():
            return await api.update(request.obj)
    raise TypeError(f"no such request: {request!r}")
