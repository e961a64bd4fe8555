"""The functions of CEL and of its libraries, by library; `environment` puts them together."""
