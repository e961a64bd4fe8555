"""What is counted and timed, under the names that dashboards know."""
