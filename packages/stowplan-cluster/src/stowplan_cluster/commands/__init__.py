"""The commands that this package contributes to `stowplan`: up, demo, apiserver."""
