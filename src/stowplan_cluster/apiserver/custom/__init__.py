"""What custom resource definitions bring along: their schemas, and what these say about objects."""
