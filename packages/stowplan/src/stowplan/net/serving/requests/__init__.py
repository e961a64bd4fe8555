"""Convert between HTTP messages and page requests and responses."""
