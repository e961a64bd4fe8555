"""From a file, a mapping or nothing to a configuration that a scheduler can run with.

A file of an older version becomes one of v1 first (`older/`). The steps are then the reference's: decode strictly, fill
in defaults, validate, build. Each ends the load with a ConfigError that carries the reference's message. A
Configuration that exists is therefore one that kube-scheduler would start with.

Upstream: cmd/kube-scheduler/app/options/configfile.go, cmd/kube-scheduler/app/server.go.
"""

from collections.abc import Callable

from stowplan.api.field_errors import aggregate
from stowplan.config.build import build
from stowplan.config.declaration import Declarations
from stowplan.config.decode import decode_configuration
from stowplan.config.defaults import default_configuration
from stowplan.config.documents import Document, parse_document
from stowplan.config.errors import ConfigError
from stowplan.config.features import DEFAULT_FEATURES, FeatureGates
from stowplan.config.older.upgrade import tell, upgrade
from stowplan.config.source import GivenSource, read_source
from stowplan.config.types import Configuration
from stowplan.config.validation import configuration_errors

Source = GivenSource | None


def load_config(
    source: Source = None,
    *,
    plugins: Declarations,
    features: FeatureGates = DEFAULT_FEATURES,
    adjust: Callable[[Configuration], Configuration] | None = None,
) -> Configuration:
    """Load a KubeSchedulerConfiguration.

    `source` is the configuration as a mapping, the path of a YAML or JSON file, or None for the defaults. `plugins`
    are all that exist. `adjust` changes the defaulted configuration before it is validated, as the leader-election
    flags do.
    """
    fields = {} if source is None else decode_configuration(_upgraded(source, plugins), plugins)
    configuration = default_configuration(fields, plugins, features)
    if adjust is not None:
        configuration = adjust(configuration)
    # Parity: without a file, flags change the defaults after these were validated.
    problems = [] if source is None else list(configuration_errors(configuration, plugins, features))
    if problems:
        raise ConfigError(aggregate(problems))
    return build(configuration, plugins, features)


def _upgraded(source: GivenSource, plugins: Declarations) -> Document:
    upgraded = upgrade(parse_document(read_source(source)), plugins)
    tell(upgraded)
    return upgraded.document
