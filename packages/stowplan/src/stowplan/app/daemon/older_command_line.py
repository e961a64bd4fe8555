"""Flags of kube-scheduler 1.16 to 1.22: a Policy or algorithm provider instead of a configuration file.

They are converted to a v1 configuration. In these releases a scheduler had one profile: of an algorithm provider, or of
a policy. The defaults are those of 1.21, the last release with providers.

Upstream: cmd/kube-scheduler/app/options/deprecated.go, pkg/scheduler/scheduler.go of 1.16 to 1.22.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from stowplan import __version__
from stowplan.app.command_line.event_loop import first_of, run, running
from stowplan.app.command_line.flags.flag_set import CommandLine
from stowplan.app.command_line.flags.retired import uses_policy_file
from stowplan.kube.config import ClientConnection, ConfigError, Configuration, Declarations, FeatureGates
from stowplan.kube.config.config_documents import Document, parse_document, read_source
from stowplan.kube.config.config_errors import ConfigFileError, invalid
from stowplan.kube.config.config_loading import load_upgraded
from stowplan.kube.config.header import no_kind, read_header
from stowplan.kube.config.older.draft import Draft, args_of
from stowplan.kube.config.older.older_schemas import API_VERSIONS, POLICY_KIND
from stowplan.kube.config.older.older_versions import check_provider, to_v1
from stowplan.kube.config.older.upgrade import Upgrade, finished, log_upgrade, upgrade_policy
from stowplan.kube.config.schema import API_VERSION, CONFIGURATION_KIND
from stowplan.net.client.connection import Connection, connect_from_scheduler_flags

if TYPE_CHECKING:
    from stowplan.app.command_line.stop_signals import StopSignals


_LAST_PROVIDERS = "v1beta1"
_MAX_WEIGHT = 100


def of_provider(provider: str, *, scheduler_name: str, weight: int | None, plugins: Declarations) -> Upgrade:
    """`weight` is that of required affinities of existing pods; None: its default."""
    check_provider(provider)
    draft = _draft(scheduler_name, plugins)
    draft.provider = provider
    _weigh(draft, weight)
    to_v1(draft, _LAST_PROVIDERS)
    return finished(draft, f"--algorithm-provider={provider}")


def of_policy(policy: Document, *, scheduler_name: str, plugins: Declarations) -> Upgrade:
    """A policy has a weight of its own."""
    draft = _draft(scheduler_name, plugins)
    upgrade_policy(draft, policy)
    return finished(draft, POLICY_KIND)


def of_default_profile(*, scheduler_name: str, weight: int | None, plugins: Declarations) -> Upgrade:
    """The current default profile under another name, or with another weight."""
    draft = _draft(scheduler_name, plugins)
    _weigh(draft, weight)
    draft.fields["apiVersion"] = API_VERSION
    return finished(draft, "")


def _draft(scheduler_name: str, plugins: Declarations) -> Draft:
    profile = {"schedulerName": scheduler_name}
    fields = {"apiVersion": "", "kind": CONFIGURATION_KIND, "profiles": [profile]}
    return Draft(fields=fields, origin=_LAST_PROVIDERS, plugins=plugins)


def _weigh(draft: Draft, weight: int | None) -> None:
    if weight is None:
        return
    if not 0 <= weight <= _MAX_WEIGHT:
        raise ConfigError(invalid("hardPodAffinitySymmetricWeight", weight, "not in valid range [0-100]"))
    args_of(draft.fields["profiles"][0], "InterPodAffinity")["hardPodAffinityWeight"] = weight


# --- location of policies


def policy_of_file(path: str) -> Document:
    try:
        text = read_source(path)
    except ConfigFileError as error:
        if isinstance(error.__context__, FileNotFoundError):
            raise ConfigFileError(f"missing policy config file {path}") from None
        raise ConfigFileError(f"couldn't read policy config: {error}") from None
    return policy_of_text(text)


def policy_of_text(text: str) -> Document:
    try:
        document = parse_document(text)
        header = read_header(document.value, document.text)
        if header.kind != POLICY_KIND or header.api_version not in API_VERSIONS:
            raise no_kind(header)
    except ConfigError as error:
        raise error.prefixed("invalid policy: ") from None
    return document


_KEY = "policy.cfg"


def configuration_of(
    line: CommandLine,
    plugins: Declarations,
    features: FeatureGates,
    adjust: Callable[[Configuration], Configuration],
    stop: StopSignals,
) -> Configuration:
    upgrade = _upgrade(line, plugins, stop)
    loaded = load_upgraded(upgrade, plugins=plugins, features=features, adjust=adjust)
    log_upgrade(upgrade)
    return loaded.configuration


class PolicyMapReader:
    """Reads the ConfigMap that a v1alpha1 configuration names for its policy."""

    def __init__(self, master: str | None, stop: StopSignals) -> None:
        self._master = master
        self._stop = stop

    def policy(self, namespace: str, name: str, /, *, kubeconfig: str) -> Document:
        connection = connect_from_scheduler_flags(kubeconfig=kubeconfig or None, master=self._master)
        return run(_policy_of_config_map(connection, namespace, name, self._stop))


def _upgrade(line: CommandLine, plugins: Declarations, stop: StopSignals) -> Upgrade:
    name: str = line["scheduler-name"]
    policy = _policy(line, stop)
    if policy is not None:
        return of_policy(policy, scheduler_name=name, plugins=plugins)
    weighed = line.is_given("hard-pod-affinity-symmetric-weight")
    weight: int | None = line["hard-pod-affinity-symmetric-weight"] if weighed else None
    if line["algorithm-provider"]:
        return of_provider(line["algorithm-provider"], scheduler_name=name, weight=weight, plugins=plugins)
    return of_default_profile(scheduler_name=name, weight=weight, plugins=plugins)


def _policy(line: CommandLine, stop: StopSignals) -> Document | None:
    if uses_policy_file(line):
        return policy_of_file(line["policy-config-file"])
    if not line["policy-configmap"]:
        return None
    connection = connect_from_scheduler_flags(kubeconfig=line["kubeconfig"] or None, master=line["master"] or None)
    return run(_policy_of_config_map(connection, line["policy-configmap-namespace"], line["policy-configmap"], stop))


async def _policy_of_config_map(connection: Connection, namespace: str, name: str, stop: StopSignals) -> Document:
    from stowplan.kube.api.api_errors import ApiError
    from stowplan.kube.api.port import Unreachable
    from stowplan.kube.api.users import ConfigMap
    from stowplan.net.client.http.user_agent import user_agent
    from stowplan.net.client.http_api import HttpApi

    agent = user_agent(command="kube-scheduler", version=__version__, purpose="policy")
    found: list[ConfigMap] = []
    where = f"couldn't get policy config map {namespace}/{name}"
    async with HttpApi.open(connection, client_settings=ClientConnection(), agent=agent) as api:

        async def ask() -> None:
            found.append(await api.get(ConfigMap, name, namespace=namespace))

        try:
            async with running(ask()) as asking:
                await first_of(stop.event().wait(), asking)
        except (ApiError, Unreachable) as error:
            raise ConfigError(f"{where}: {error}") from error
    if not found:
        raise ConfigError(f"{where}: stopped before the answer arrived")
    if _KEY not in found[0].data:
        raise ConfigError(f'missing policy config map value at key "{_KEY}"')
    return policy_of_text(found[0].data[_KEY])
