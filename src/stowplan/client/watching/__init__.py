"""Lists and watches that follow the objects of a kind."""
