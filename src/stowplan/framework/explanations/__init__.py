"""How a plugin explains its refusals: details for people, facts that keep a pod off every node, and remedies to try.

A plugin offers an `Explanation` (`Plugin.explanation`); `stowplan explain` asks for it, scheduling never does. Nothing
that schedules imports this package.
"""
