"""Every configuration is read, defaulted, merged or refused as the reference does."""

import pytest

import stowplan
from golden import compare


def answer_to(config):
    try:
        loaded = stowplan.load_config(config)
    except stowplan.ConfigError as error:
        return {"error": compare.normal_error(str(error))}
    return {"written": loaded.to_dict(), "effective": loaded.effective_plugins()}


@pytest.mark.parametrize("row", [pytest.param(row, id=f"line-{n}") for n, row in enumerate(compare.rows("config"), 1)])
def test_configuration_equals_the_reference(row):
    if "error" in row:
        want = {"error": compare.normal_error(row["error"])}
    else:
        want = {"written": row["written"], "effective": row["effective"]}
    compare.fail_on(compare.differences(want, answer_to(row["config"])))


@pytest.mark.parametrize("scenario", compare.scenarios(compare.CLAIMED))
def test_the_configurations_of_recorded_clusters_load(scenario):
    assert stowplan.load_config(scenario["config"]).profiles
