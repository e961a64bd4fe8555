"""Every configuration is decoded, defaulted, merged or refused as in the reference."""

import stowplan
from golden import compare


def answer_to(config):
    try:
        loaded = stowplan.load_config(config, emulated_version=compare.REFERENCE)
    except stowplan.ConfigError as error:
        return {"error": compare.normal_error(str(error))}
    return {"written": loaded.to_dict(), "effective": loaded.effective_plugins()}


def test_configurations_equal_the_reference():
    found = []
    for n, row in enumerate(compare.rows("config"), 1):
        if "error" in row:
            want = {"error": compare.normal_error(row["error"])}
        else:
            want = {"written": row["written"], "effective": row["effective"]}
        found += compare.differences(want, answer_to(row["config"]), f"line {n} ")
    compare.fail_on(found)
