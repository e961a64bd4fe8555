"""Reports about configurations: plugin origins, differences, field documentation."""
