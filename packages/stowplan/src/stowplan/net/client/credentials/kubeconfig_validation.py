"""Validate the kubeconfig entries of a context; all problems are reported together.

Only entries that would be used are checked.

Upstream: staging/src/k8s.io/client-go/tools/clientcmd/validation.go.
"""

from __future__ import annotations

from collections.abc import Iterator

from stowplan.kube.api.field_errors import aggregate, go_quote
from stowplan.net.client.client_errors import ClientConfigError
from stowplan.net.client.credentials.exec_credentials import API_VERSIONS, GROUP
from stowplan.net.client.credentials.kubeconfig import Selection
from stowplan.net.client.credentials.kubeconfig_types import AuthProviderConfig, Cluster, ExecConfig, User
from stowplan.net.client.endpoint.proxies import proxy_problem

_INTERACTIVE_MODES = ("Never", "IfAvailable", "Always")

_REPLACEMENTS = {
    "gcp": "The gcp auth plugin has been removed: use the exec plugin gke-gcloud-auth-plugin "
    "(gcloud container clusters get-credentials writes the entry)",
    "azure": "The azure auth plugin has been removed: use the exec plugin kubelogin "
    "(kubelogin convert-kubeconfig rewrites the entry)",
    "oidc": "use the exec plugin kubelogin (kubectl oidc-login setup shows the entry to write)",
}


def check(selection: Selection) -> None:
    """Raise ClientConfigError with all problems of a cluster and a user."""
    problems = []
    if selection.cluster is not None:
        problems += [f"{selection.cluster.where}: {text}" for text in _cluster_problems(selection.cluster.value)]
    if selection.user is not None:
        problems += [f"{selection.user.where}: {text}" for text in _user_problems(selection.user.value)]
    if problems:
        raise ClientConfigError(f"invalid configuration: {aggregate(problems)}")


def _cluster_problems(cluster: Cluster) -> Iterator[str]:
    has_ca = cluster.certificate_authority or cluster.certificate_authority_data
    if cluster.certificate_authority and cluster.certificate_authority_data:
        yield _both("certificate-authority-data", "certificate-authority")
    if has_ca and cluster.insecure_skip_tls_verify:
        yield (
            "insecure-skip-tls-verify: specifying a root certificates file with the insecure flag is not allowed; "
            "remove it, or remove certificate-authority and certificate-authority-data"
        )
    problem = proxy_problem(cluster.proxy_url)
    if problem:
        yield f"proxy-url: {problem}"


def _both(first: str, second: str) -> str:
    return f"{first} and {second} are both specified; remove one of them"


def _user_problems(user: User) -> Iterator[str]:
    if user.token and (user.username or user.password):
        yield "more than one authentication method found: token and username/password, only one is allowed"
    if user.client_certificate or user.client_certificate_data:
        yield from _certificate_problems(user)
    if user.exec is not None:
        yield from (f"exec: {problem}" for problem in _exec_problems(user.exec))
        if user.auth_provider is not None:
            yield "auth-provider cannot be provided in combination with an exec plugin; remove auth-provider"
    elif user.auth_provider is not None and not authenticates_without_plugin(user):
        yield f"auth-provider: {_provider_problem(user.auth_provider)}"
    if (user.impersonate_uid or user.impersonate_groups or user.impersonate_user_extra) and not user.impersonate:
        yield "requesting as-uid, as-groups or as-user-extra without impersonating a user; set as, too"


def authenticates_without_plugin(user: User) -> bool:
    """Whether the entry itself has credentials; an exec plugin is then not run."""
    has_certificate = user.client_certificate or user.client_certificate_data
    has_key = user.client_key or user.client_key_data
    return bool(user.token or user.token_file or user.username or user.password or (has_certificate and has_key))


def _certificate_problems(user: User) -> Iterator[str]:
    if user.client_certificate and user.client_certificate_data:
        yield _both("client-certificate-data", "client-certificate")
    if user.client_key and user.client_key_data:
        yield _both("client-key-data", "client-key")
    if not user.client_key and not user.client_key_data:
        yield "client-key-data or client-key must be specified to use the client certificate"


def _exec_problems(config: ExecConfig) -> Iterator[str]:
    if not config.command:
        yield "command must be specified"
    yield from _version_problems(config.api_version)
    if any(not variable.name for variable in config.env):
        yield "env: each variable needs a name"
    if any("=" in variable.name for variable in config.env):
        yield "env: no name may hold `=`"
    texts = [config.command, *config.args, *(variable.name + variable.value for variable in config.env)]
    if any("\0" in text for text in texts):
        yield "command, args and env cannot hold NUL characters"
    mode = config.interactive_mode
    if mode and mode not in _INTERACTIVE_MODES:
        yield f"interactiveMode: {go_quote(mode)} is unknown, expected one of {', '.join(_INTERACTIVE_MODES)}"
    if not mode and config.api_version == f"{GROUP}/v1":
        yield f"interactiveMode must be specified with apiVersion {config.api_version}: {', '.join(_INTERACTIVE_MODES)}"


def _version_problems(version: str) -> Iterator[str]:
    supported = " or ".join(API_VERSIONS)
    if not version:
        yield f"apiVersion must be specified: {supported}"
    elif version == f"{GROUP}/v1alpha1":
        yield (
            f"apiVersion {version} was removed in Kubernetes 1.24; use {supported}, a plugin that cannot answer with "
            "these has to be updated"
        )
    elif version not in API_VERSIONS:
        yield f"invalid apiVersion {go_quote(version)}, expected {supported}"


def _provider_problem(provider: AuthProviderConfig) -> str:
    replacement = _REPLACEMENTS.get(provider.name, "use an exec plugin of your identity provider (users[].user.exec)")
    return f"{go_quote(provider.name)} is not supported; {replacement}"
