"""`--tracing-config-file`: traces of attempts, if a file asks for them and OpenTelemetry is installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from stowplan.kube.config.config_errors import ConfigFileError

if TYPE_CHECKING:
    from stowplan.scheduler.engine.schedule_one import AttemptTracer

NO_OPENTELEMETRY = "--tracing-config-file needs OpenTelemetry: pip install 'stowplan[traces]'"


@contextmanager
def tracer_of(path: str | None, service: str) -> Iterator[AttemptTracer | None]:
    """The tracer of a TracingConfiguration file; None without one. Raises ConfigFileError.

    `service`: the name of the process in traces.
    """
    if not path:
        yield None
        return
    from stowplan.kube.config.tracing import load_tracing

    configuration = load_tracing(path)
    try:
        from stowplan.app.daemon.attempt_spans import exported
    except ModuleNotFoundError as error:
        raise ConfigFileError(NO_OPENTELEMETRY) from error
    with exported(configuration, service) as tracer:
        yield tracer
