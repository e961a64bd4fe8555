"""Print fields of a JSON document: python fields.py FILE pod suggestions.0.text

A field that is absent prints as nothing, as `jq` would print null.
"""

import json
import sys


def field(value, path):
    for step in path.split("."):
        if isinstance(value, list):
            value = value[int(step)] if int(step) < len(value) else None
        else:
            value = (value or {}).get(step)
    return value


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        document = json.load(file)
    for path in sys.argv[2:]:
        found = field(document, path)
        print(f"{path}: {found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)}")
