"""The functions of CEL and of its libraries, by library; combined by `environment`."""
