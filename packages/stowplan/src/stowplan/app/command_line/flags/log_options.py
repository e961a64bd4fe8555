"""Validate the logging flags and convert them to log settings.

Upstream: k8s.io/component-base/logs/api/v1/options.go.
"""

from __future__ import annotations

from collections.abc import Iterator

from stowplan.app.command_line.flags.flag_set import CommandLine
from stowplan.kube.api.quantity import value
from stowplan.kube.config import FeatureGates
from stowplan.kube.config.config_errors import forbidden, invalid
from stowplan.kube.klog.setup import LogSettings

_ALPHA_GATE = "LoggingAlphaOptions"
_BETA_GATE = "LoggingBetaOptions"


def log_option_errors(line: CommandLine, features: FeatureGates) -> Iterator[str]:
    if line["log-flush-frequency"] <= 0:
        yield invalid("flushFrequency", line["log-flush-frequency"], "Must be greater than zero")
    format_ = line["logging-format"]
    if format_ not in ("text", "json"):
        yield invalid("format", format_, "Unsupported log format")
    elif format_ == "json" and not features.enabled(_BETA_GATE):
        yield forbidden("format", f"Log format json is disabled, see {_BETA_GATE} feature")
    if line["vmodule"] and format_ != "text":
        yield forbidden("vmodule", "Only supported for text log format")
    if not features.enabled(_ALPHA_GATE):
        yield from _alpha_options(line)


def _alpha_options(line: CommandLine) -> Iterator[str]:
    for format_ in ("text", "json"):
        given = {
            "splitStream": line[f"log-{format_}-split-stream"],
            "infoBufferSize": line[f"log-{format_}-info-buffer-size"].nano,
        }
        for option in (name for name, wanted in given.items() if wanted):
            yield forbidden(f"options.{format_}.{option}", f"Feature {_ALPHA_GATE} is disabled")


def log_settings(line: CommandLine) -> LogSettings:
    """Convert valid flags to settings."""
    format_ = line["logging-format"]
    return LogSettings(
        format=format_,
        verbosity=line["v"],
        vmodule=line["vmodule"],
        split_stream=line[f"log-{format_}-split-stream"],
        info_buffer_size=value(line[f"log-{format_}-info-buffer-size"].nano),
        flush_frequency=line["log-flush-frequency"].seconds,
    )
