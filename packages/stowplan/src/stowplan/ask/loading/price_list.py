"""Prices of nodes: a CSV file with the columns `type` and `price` (of an hour), perhaps `capacityType`, and any others,
which are resources.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from math import inf
from pathlib import Path
from typing import NamedTuple

from stowplan.kube.api.quantity import parse_quantity
from stowplan.kube.config.config_errors import did_you_mean

#: Labels of nodes.
INSTANCE_TYPE, CAPACITY_TYPE = "node.kubernetes.io/instance-type", "karpenter.sh/capacity-type"
_COLUMNS = ("type", "price", "capacityType")


class PriceListError(ValueError):
    """A price list that cannot be read; the message has file and line."""


class Priced(NamedTuple):
    price: float
    #: Resource -> quantity.
    capacity: dict[str, str]


#: By type and capacity type, "" for any.
Prices = Mapping[tuple[str, str], Priced]


def read_prices(path: Path) -> dict[tuple[str, str], Priced]:
    """Raises PriceListError."""
    found: dict[tuple[str, str], Priced] = {}
    line = 1
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, restval="", strict=True)
            header = reader.fieldnames or ()
            for name in ("type", "price"):
                if name not in header:
                    hint = next(did_you_mean(name, header), f"columns are {', '.join(header)}")
                    raise PriceListError(f"--prices: {path} has no column {name!r}; {hint}")
            for row in reader:
                line = reader.line_num
                key = row["type"], row.get("capacityType", "")
                if key in found:
                    raise ValueError(f"type {' '.join(key).strip()!r} has a price already")
                found[key] = _priced(row)
    except PriceListError:
        raise
    except OSError as error:
        raise PriceListError(f"{path}: {error.strerror or error}") from None
    except (ValueError, csv.Error) as error:
        raise PriceListError(f"{path}: line {line}: {error}") from None
    return found


def _priced(row: Mapping[str | None, str]) -> Priced:
    if None in row:
        raise ValueError("more cells than in the first line")
    capacity = {name: cell for name, cell in row.items() if name is not None and name not in _COLUMNS and cell}
    for amount in capacity.values():
        parse_quantity(amount)
    price = float(row["price"])
    if not 0 <= price < inf:
        raise ValueError(f"price: want 0 or more, got {row['price']}")
    return Priced(price, capacity)


def price_of(prices: Prices, type_: str, capacity_type: str) -> Priced | None:
    return prices.get((type_, capacity_type)) or prices.get((type_, ""))
