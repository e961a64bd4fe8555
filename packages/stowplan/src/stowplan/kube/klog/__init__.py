"""Logging in klog's text and JSON formats.

    log = get_logger(__name__)
    log.info("Scheduling started", profiles=2)
    log.v(2).info("Successfully bound pod to node", pod=pod, node=name)
    log.error(error, "Failed to bind pod", pod=pod)

Commands configure format, streams and verbosity (`setup.set_up`). In a program that uses this package as a library,
lines go to the standard library's loggers of the same names; those of a scheduler at work (`scheduler.engine` and
others) are dropped if the program does not configure `logging`.
"""

from stowplan.kube.klog.logger import Logger, get_logger, without_log
from stowplan.kube.klog.value_text import ObjectRef

__all__ = ["Logger", "ObjectRef", "get_logger", "without_log"]
