"""Validate probes and lifecycle hooks: each has exactly one handler.

Upstream: pkg/apis/core/validation (validateProbe, validateHandler, validateLifecycle).
"""

from __future__ import annotations

from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.validation import names
from stowplan_cluster.apiserver.validation.field_errors import Errors

PROBES = ("livenessProbe", "readinessProbe", "startupProbe")

_COUNTS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_PROBE_ACTIONS = ("exec", "httpGet", "tcpSocket", "grpc")
_HOOK_ACTIONS = ("exec", "httpGet", "tcpSocket", "sleep")


def check_probes(errors: Errors, path: str, container: JsonObject, grace: int | None) -> None:
    for name in PROBES:
        if (probe := container.get(name)) is not None:
            _check_probe(errors, f"{path}.{name}", name, probe, grace)


def _check_probe(errors: Errors, path: str, name: str, probe: JsonObject, grace: int | None) -> None:
    _check_action(errors, path, probe, _PROBE_ACTIONS, grace)
    errors.check_not_negative_fields(path, probe, _COUNTS)
    own_grace = probe.get("terminationGracePeriodSeconds")
    if own_grace is not None and own_grace <= 0:
        errors.invalid(f"{path}.terminationGracePeriodSeconds", own_grace, "must be greater than 0")
    if name == "readinessProbe":
        if own_grace is not None:
            detail = "must not be set for readinessProbes"
            errors.invalid(f"{path}.terminationGracePeriodSeconds", own_grace, detail)
    elif probe.get("successThreshold", 0) != 1:
        errors.invalid(f"{path}.successThreshold", probe.get("successThreshold", 0), "must be 1")


def check_lifecycle(errors: Errors, path: str, lifecycle: JsonObject, grace: int | None) -> None:
    for name in ("postStart", "preStop"):
        if (hook := lifecycle.get(name)) is not None:
            _check_action(errors, f"{path}.{name}", hook, _HOOK_ACTIONS, grace)


def _check_action(errors: Errors, path: str, holder: JsonObject, kinds: tuple[str, ...], grace: int | None) -> None:
    found = False
    for kind in kinds:
        action = holder.get(kind)
        if action is None:
            continue
        if found:
            errors.forbidden(f"{path}.{kind}", "may not specify more than 1 handler type")
            continue
        found = True
        if kind == "sleep":
            _check_sleep(errors, f"{path}.sleep", action.get("seconds", 0), grace)
        else:
            _ACTIONS[kind](errors, f"{path}.{kind}", action)
    if not found:
        errors.required(path, "must specify a handler type")


def _check_exec(errors: Errors, path: str, action: JsonObject) -> None:
    if not action.get("command"):
        errors.required(f"{path}.command")


def _check_http(errors: Errors, path: str, action: JsonObject) -> None:
    if not action.get("path"):
        errors.required(f"{path}.path")
    check_port(errors, f"{path}.port", action.get("port", 0))
    scheme = action.get("scheme", "")
    if scheme not in ("HTTP", "HTTPS"):
        errors.not_supported(f"{path}.scheme", scheme, ("HTTP", "HTTPS"))
    for header in action.get("httpHeaders") or ():
        name = header.get("name", "")
        errors.check_texts(f"{path}.httpHeaders", name, names.http_header_name(name))


def _check_socket(errors: Errors, path: str, action: JsonObject) -> None:
    check_port(errors, f"{path}.port", action.get("port", 0))


def _check_sleep(errors: Errors, path: str, seconds: int, grace: int | None) -> None:
    if grace is not None and not 0 <= seconds <= grace:
        detail = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
        errors.invalid(path, seconds, detail)


def check_port(errors: Errors, path: str, port: int | str) -> None:
    """Check a port number or name."""
    complaints = names.port_name(port) if isinstance(port, str) else names.port_number(port)
    for complaint in complaints:
        errors.invalid(path, port, complaint)


_ACTIONS = {"exec": _check_exec, "httpGet": _check_http, "tcpSocket": _check_socket, "grpc": _check_socket}
