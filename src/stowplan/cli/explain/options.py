"""The options of `stowplan explain`: the question, and mutually exclusive options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import click

from stowplan.loading.wanted_events import EventsWanted
from stowplan.sources.selection import Selection, spelled
from stowplan.sources.templates import POD_GROUP, named_object
from stowplan.structs import PlainStruct

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

What = Literal["pods", "pending", "node", "podgroup"]

_WANTED = 'Ask for "pod [NS/]NAME…", "deployment/NAME", "podgroup/NAME", "pending" or "node NAME"'


class Options(PlainStruct, frozen=True, kw_only=True):
    """The option values, under click's names."""

    question: tuple[str, ...]
    files: tuple[str, ...]
    recursive: bool
    recording: str | None
    at: str | None
    kubeconfig: str | None
    context: str | None
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
    from_scheduler: str | None
    token_file: str | None
    certificate_authority: str | None
    insecure_skip_tls_verify: bool

    @property
    def as_data(self) -> bool:
        return self.output in ("json", "yaml")


class Question(PlainStruct, frozen=True):
    what: What
    #: `[KIND/][NS/]NAME` of pods and their owners, or the single name of a node or group.
    names: list[str]

    @classmethod
    def of(cls, options: Options) -> Question:
        """Raises click.UsageError for mutually exclusive options, InputError for a kind without a name."""
        _check_clusters(options)
        what, names = _asked(options.question, options.pod, pending=options.pending)
        if options.from_scheduler is not None:
            _check_scheduler(options, what)
        else:
            _check_cluster(options, what)
        if what == "podgroup" and options.namespace is not None and "/" not in names[0]:
            names = [f"{options.namespace}/{names[0]}"]
        return cls(what, names)

    def selection(self, options: Options) -> Selection:
        """The selected pods; raises InputError."""
        names = [] if self.what == "podgroup" else self.names
        return Selection.of(names, namespace=options.namespace, labels=options.selector, fields=options.field_selector)

    def events(self, selection: Selection) -> EventsWanted | None:
        """The Events to read for the answer."""
        if self.what not in ("pods", "pending"):
            return None
        if not selection.names:
            return EventsWanted(namespace=selection.namespace)
        found = [named_object(name, selection.namespace or "") for name in selection.names]
        if selection.is_one_pod:
            _, namespace, name = found[0]
            return EventsWanted(pod=f"{namespace}/{name}" if namespace else name)
        namespaces = {namespace for _, namespace, _ in found}
        return EventsWanted(namespace=namespaces.pop() if len(namespaces) == 1 else None)


def _asked(words: Sequence[str], pod: str | None, *, pending: bool) -> tuple[What, list[str]]:
    if words and (pod or pending):
        raise click.UsageError(f"{_WANTED}, or use --pod or --pending, not both.")
    match list(words):
        case []:
            return ("pods", [pod]) if pod else ("pending", [])
        case ["pending"]:
            return "pending", []
        case ["node" | "nodes" | "no", name] if name:
            return "node", [name]
        case [one] if one.startswith(("node/", "no/")) and one.partition("/")[2]:
            return "node", [one.partition("/")[2]]
        case [kind, name] if kind.lower() in POD_GROUP and name:
            return "podgroup", [name]
        case [one] if one.partition("/")[0].lower() in POD_GROUP and one.partition("/")[2]:
            return "podgroup", [one.partition("/")[2]]
        case [first, *_] if first != "pending" and (len(words) > 1 or "/" in first):
            names = spelled(words)
            if all(names):
                return "pods", names
    raise click.UsageError(f"{_WANTED}; got {' '.join(words)!r}.")


# -- mutually exclusive options ----------------------------------------------------------------------------------------


def _check_clusters(options: Options) -> None:
    """Check that there is one cluster, and one selection of pods."""
    if options.pod and options.pending:
        raise click.UsageError("--pod and --pending exclude each other.")
    if options.namespace is not None and options.all_namespaces:
        raise click.UsageError("-n and -A exclude each other.")
    if options.at is not None and options.recording is None:
        raise click.UsageError("--at is for a moment of a recording: give --recording FILE.")
    live = {"--kubeconfig": options.kubeconfig, "--context": options.context}
    if options.recording is not None:
        elsewhere = {"-f": options.files, "-R": options.recursive, **live}
        elsewhere |= {"--from-scheduler": options.from_scheduler, "--watch": options.watch}
        _excluded("--recording has a cluster of its own", elsewhere)


def _check_scheduler(options: Options, what: What) -> None:
    """With --from-scheduler."""
    of_its_own = {"-f": options.files, "-R": options.recursive, "--config": options.config, "--plugin": options.plugins}
    of_its_own["--pod-groups"] = options.pod_groups
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
        user = {"--kubeconfig": options.kubeconfig, "--context": options.context}
        _excluded("the kubeconfig is not read with --token-file", user)


def _check_cluster(options: Options, what: What) -> None:
    """With files, a recording or a live cluster."""
    access = {
        "--token-file": options.token_file,
        "--certificate-authority": options.certificate_authority,
        "--insecure-skip-tls-verify": options.insecure_skip_tls_verify,
    }
    _excluded("for --from-scheduler only", access)
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
