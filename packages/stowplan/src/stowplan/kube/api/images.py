"""Image names, normalized to the form used in a node's image list."""

from __future__ import annotations


def normalized_image_name(name: str) -> str:
    """Append `:latest` to a name without tag or digest; nothing else is normalized.

    A colon before the last slash belongs to a registry port, not to a tag.
    """
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"
