"""How plugins explain refusals: details, obstacles on every node, and remedies to try.

A plugin offers an `Explanation` (`Plugin.explanation`); `stowplan explain` asks for it, scheduling never does. Nothing
that schedules imports this package.
"""
