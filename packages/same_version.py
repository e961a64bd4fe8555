"""Build hook: the other distributions need the scheduler of their own version, whose inner parts they import."""

from hatchling.metadata.plugin.interface import MetadataHookInterface


class SameVersion(MetadataHookInterface):
    def update(self, metadata: dict) -> None:
        metadata["dependencies"] = [f"stowplan=={metadata['version']}"]
