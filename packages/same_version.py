"""Build hook: a distribution needs others of its own version, whose inner parts it imports."""

from hatchling.metadata.plugin.interface import MetadataHookInterface


class SameVersion(MetadataHookInterface):
    def update(self, metadata: dict) -> None:
        metadata["dependencies"] = [f"{name}=={metadata['version']}" for name in self.config["needs"]]
