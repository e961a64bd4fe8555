"""The options of `stowplan explain`: the question, and mutually exclusive options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import click
from msgspec.structs import replace

from stowplan.app.cli.moment_option import moment_asked
from stowplan.app.command_line.error_reporting import InputError
from stowplan.app.sources.object_references import Reference, kind_of, reference, references
from stowplan.app.sources.selection import Selection
from stowplan.ask.loading.event_query import EventQuery
from stowplan.kube.api.file_documents import SUFFIXES
from stowplan.kube.structs import PlainStruct

if TYPE_CHECKING:
    from stowplan.net.client.cluster_flags import ClusterFlags

What = Literal["pods", "pending", "node", "podgroup"]
#: Kinds that are explained one at a time.
_SINGLE: Mapping[str, What] = {"Node": "node", "PodGroup": "podgroup"}

_WANTED = 'Ask about "[NS/]NAME", "KIND/NAME", "podgroup/NAME", "node NAME" or "pending"'


class Options(PlainStruct, frozen=True, kw_only=True):
    """The option values, under click's names."""

    question: tuple[str, ...]
    files: tuple[str, ...]
    recursive: bool
    recording: str | None
    at: str | None
    live: ClusterFlags
    config: str | None
    pod: str | None
    pending: bool
    namespace: str | None
    all_namespaces: bool
    selector: str
    field_selector: str
    watch: bool
    watch_interval: float
    exit_code: bool
    output: str
    plugins: tuple[str, ...]
    no_extenders: bool
    pod_groups: bool
    emulated_version: str | None
    from_scheduler: str | None
    token_file: str | None

    @property
    def as_data(self) -> bool:
        return self.output in ("json", "yaml")


class Question(PlainStruct, frozen=True):
    what: What
    #: Pods and their owners, or a single node or group.
    names: list[Reference]

    @classmethod
    def of(cls, options: Options) -> Question:
        """Raises click.UsageError for mutually exclusive options, InputError for what is not a name."""
        _check_clusters(options)
        what, names = _asked(options.question, options.pod, pending=options.pending)
        if options.from_scheduler is not None:
            _check_scheduler(options, what)
        else:
            _check_cluster(options, what)
        if what == "podgroup" and options.namespace is not None and names[0].namespace is None:
            names = [replace(names[0], namespace=options.namespace)]
        return cls(what, names)

    def selection(self, options: Options) -> Selection:
        """The selected pods; raises InputError."""
        names = [] if self.what == "podgroup" else self.names
        return Selection.of(names, namespace=options.namespace, labels=options.selector, fields=options.field_selector)

    def events(self, selection: Selection) -> EventQuery | None:
        """The Events to read for the answer."""
        if self.what not in ("pods", "pending"):
            return None
        if not selection.names:
            return EventQuery(namespace=selection.namespace)
        if selection.is_one_pod:
            (pod,) = selection.names
            namespace = pod.namespace or selection.namespace
            return EventQuery(pod=f"{namespace}/{pod.name}" if namespace else pod.name)
        namespaces = {wanted.namespace or selection.namespace or "" for wanted in selection.names}
        within = namespaces.pop() if len(namespaces) == 1 else None
        return EventQuery(namespace=within, of_workloads=bool(selection.workloads()))


def _asked(words: Sequence[str], pod: str | None, *, pending: bool) -> tuple[What, list[Reference]]:
    if words and (pod or pending):
        raise click.UsageError(f"{_WANTED}, or use --pod or --pending, not both.")
    if not words:
        return ("pods", [reference(pod)]) if pod else ("pending", [])
    if words[0] == "pending":
        if len(words) > 1:
            raise click.UsageError(f"pending takes no names, got {' '.join(words[1:])}; -n and -l select among them.")
        return "pending", []
    _refuse_other_words(words)
    names = references(words)
    single = [one.kind for one in names if one.kind in _SINGLE]
    if not single:
        return "pods", names
    if len(names) > 1:
        raise click.UsageError(f"Ask about one {single[0]} at a time, got {' '.join(words)}.")
    return _SINGLE[single[0]], names


def _refuse_other_words(words: Sequence[str]) -> None:
    """Raise click.UsageError for words that are neither kinds nor names."""
    first = words[0]
    if len(words) == 1 and kind_of(first) == "Pod":
        raise InputError(f"{first} is a kind: give a name, too; `explain pending` is about all pods without a node")
    files = [word for word in words if word.endswith(SUFFIXES)]
    if files:
        raise click.UsageError(f"{files[0]} is a file: give it with -f.")


# -- mutually exclusive options ----------------------------------------------------------------------------------------


def _check_clusters(options: Options) -> None:
    """Check that there is one cluster, and one selection of pods."""
    if options.pod and options.pending:
        raise click.UsageError("--pod and --pending exclude each other.")
    if options.namespace is not None and options.all_namespaces:
        raise click.UsageError("-n and -A exclude each other.")
    moment_asked(options.recording, options.at, {"--from-scheduler": options.from_scheduler, "--watch": options.watch})


def _check_scheduler(options: Options, what: What) -> None:
    """With --from-scheduler."""
    of_its_own = {"-f": options.files, "-R": options.recursive, "--config": options.config, "--plugin": options.plugins}
    of_its_own["--pod-groups"] = options.pod_groups
    of_its_own["--emulated-version"] = options.emulated_version
    _excluded("--from-scheduler asks a scheduler that has its own", of_its_own)
    narrower = {
        "-n": options.namespace if what == "pending" else None,
        "-l": options.selector,
        "--field-selector": options.field_selector,
        "--watch": options.watch,
        "--exit-code": options.exit_code,
    }
    _excluded("a scheduler can be asked about one pod or all pending pods", narrower)
    if options.token_file:
        of_scheduler = ("--certificate-authority", "--insecure-skip-tls-verify")
        others = [flag for flag in options.live.given if flag not in of_scheduler]
        _excluded("the kubeconfig is not read with --token-file", dict.fromkeys(others, True))


def _check_cluster(options: Options, what: What) -> None:
    """With files, a recording or a live cluster."""
    _excluded("for --from-scheduler only", {"--token-file": options.token_file})
    labels = {"-l": options.selector, "--field-selector": options.field_selector}
    if what == "node":
        of_pods = {"-n": options.namespace, **labels, "--exit-code": options.exit_code}
        _excluded("a node is asked about, these are about pods", of_pods)
    if what == "podgroup":
        _excluded("a group is asked about, these are about pods", labels)
    if options.watch and (options.files or options.as_data):
        raise click.UsageError("--watch is for a live cluster, and for text: give neither -f nor -o json or yaml.")


def _excluded(why: str, options: Mapping[str, object]) -> None:
    given = [name for name, value in options.items() if value]
    if given:
        raise click.UsageError(f"{', '.join(given)}: {why}.")
