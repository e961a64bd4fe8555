"""Convert plugin flags of Kubernetes up to 1.22 to a v1 configuration.

In these releases a scheduler had one profile: of an algorithm provider, or of a policy. The defaults are those of 1.21,
the last release with providers.
"""

from stowplan.kube.config.config_documents import Document, parse_document, read_source
from stowplan.kube.config.config_errors import ConfigError, ConfigFileError, invalid
from stowplan.kube.config.declaration import Declarations
from stowplan.kube.config.header import no_kind, read_header
from stowplan.kube.config.older.draft import Draft, args_of
from stowplan.kube.config.older.older_schemas import API_VERSIONS, POLICY_KIND
from stowplan.kube.config.older.older_versions import check_provider, to_v1
from stowplan.kube.config.older.upgrade import Upgrade, finished, upgrade_policy
from stowplan.kube.config.schema import API_VERSION, CONFIGURATION_KIND

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
