"""How plugins explain rejections: details, obstacles on every node, and remedies to try.

A plugin provides an `Explanation` (`Plugin.explanation`), which is used by `stowplan explain` and never by scheduling.
Scheduling code does not import this package.
"""
