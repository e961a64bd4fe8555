"""List and watch the objects of a kind."""
