"""A real browser for tests of pages, and the pages that it opens."""
