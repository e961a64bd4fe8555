"""Collects the log entries of a block."""

from contextlib import contextmanager

from stowplan.kube.klog.logger import configure


class LogLines:
    def __init__(self):
        self.entries = []

    def write(self, entry):
        self.entries.append(entry)

    def of(self, *modules):
        """Level, message and keys of these modules' entries; objects are replaced by their names."""
        return [
            (entry.level, entry.message, {key: shown(value) for key, value in entry.keys.items()})
            for entry in self.entries
            if entry.module.rpartition(".")[2] in modules
        ]


def shown(value):
    metadata = getattr(getattr(value, "pod", value), "metadata", None)
    return value if metadata is None else "/".join(filter(None, (metadata.namespace, metadata.name)))


@contextmanager
def logged(verbosity=5):
    found = LogLines()
    configure(sink=found, verbosity=verbosity)
    try:
        yield found
    finally:
        configure()
