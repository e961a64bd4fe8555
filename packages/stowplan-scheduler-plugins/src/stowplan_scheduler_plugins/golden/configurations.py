"""Configurations: what the plugins' arguments become, or why no scheduler starts with them."""

import re
from typing import Any

import stowplan
from stowplan_scheduler_plugins.golden.differences import differences
from stowplan_scheduler_plugins.golden.tally import CONFIGURATIONS, Answer

Json = Any
_SCHEME = re.compile(r' in scheme "[^"]*"')
_ECHO = re.compile(r"(?<=Invalid value: )(?:\{.*?\}|null)(?=: )")


#: scheduler-plugins' own samples are of v1beta3, which their scheduler refuses.
_OLDER = "configurations of older versions are read"


def configuration_answer(number: int, row: Json) -> Answer:
    if row.get("error", "").startswith("no kind ") and "error" not in _fate(row["config"]):
        return Answer(CONFIGURATIONS, f"config line {number}", [], _OLDER)
    want = {"error": _normal(row["error"])} if "error" in row else {"pluginConfig": row["pluginConfig"]}
    found = list(differences(want, _fate(row["config"])))
    return Answer(CONFIGURATIONS, f"config line {number}", found)


def _fate(config: Json) -> Json:
    try:
        loaded = stowplan.Cluster((), config=config).config.to_dict()
    except stowplan.ConfigError as error:
        return {"error": _normal(str(error))}
    # Recorded are the arguments of out-of-tree plugins alone.
    return {
        "pluginConfig": {
            profile["schedulerName"]: {
                one["name"]: one["args"] for one in profile["pluginConfig"] if one["name"] not in _in_tree()
            }
            for profile in loaded["profiles"]
        }
    }


def _in_tree() -> set[str]:
    defaults = stowplan.load_config().to_dict()["profiles"][0]
    return {one["name"] for one in defaults["pluginConfig"]}


def _normal(error: str) -> str:
    """An error without positions in Go's sources and without the layout of echoed structs."""
    return _ECHO.sub("{}", _SCHEME.sub("", error))
