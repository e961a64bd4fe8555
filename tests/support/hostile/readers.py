"""Everything that reads untrusted files: each reader succeeds, or raises its own error."""

from collections.abc import Callable
from pathlib import Path

import stowplan
from stowplan.app.command_line.flags.option_errors import read_allow_list
from stowplan.kube.api.manifest_files import LoadError, load_files, load_manifests
from stowplan.net.client.client_errors import ClientConfigError
from stowplan.net.client.credentials.kubeconfig import parse_kubeconfig, select
from stowplan.scheduler.engine.dumped import DumpError, decode_dump
from stowplan.scheduler.engine.input_log.recording import RecordingError, read_entries, read_header
from stowplan_cluster.front.credentials import is_ours


def _recording(path):
    with path.open("rb") as lines:
        header = read_header(next(lines, b""))
        for _ in read_entries(lines, header):
            pass


READERS: dict[str, tuple[Callable[[Path], object], tuple[type[Exception], ...]]] = {
    "configuration": (stowplan.load_config, (stowplan.ConfigError,)),
    "objects": (lambda path: load_files([str(path)]), (LoadError,)),
    "manifests": (lambda path: load_manifests([str(path)]), (LoadError,)),
    "kubeconfig": (lambda path: select(parse_kubeconfig(path.read_bytes(), str(path))), (ClientConfigError,)),
    "labels of metrics": (lambda path: read_allow_list(str(path)), (ValueError,)),
    "dump": (lambda path: decode_dump(path.read_bytes()), (DumpError,)),
    "recording": (_recording, (RecordingError,)),
    "own kubeconfig": (is_ours, ()),
}


def read(name, path):
    """The error message for the file; "" if it is valid."""
    reader, errors = READERS[name]
    try:
        reader(path)
    except errors as error:
        text = str(error)
        assert text, "an error without a message"
        return text
    return ""
