"""URLs as logs and messages show them.

Upstream: net/url (URL.Redacted) of Go.
"""

import re

#: Up to the last @, as passwords may contain anything; user name and scheme may be missing.
_PASSWORD = re.compile(r"((?:[A-Za-z][A-Za-z0-9+.-]*://)?+[^:@/]*):.*@", re.DOTALL)


def without_password(url: str) -> str:
    """The URL with its password replaced."""
    found = _PASSWORD.match(url)
    return url if found is None else f"{found[1]}:xxxxx@{url[found.end() :]}"
