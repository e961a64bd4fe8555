"""The distribution's Chromium, driven by Playwright's Python package; tests are skipped without it."""

import os
import shutil
from contextlib import contextmanager

import pytest
from playwright.sync_api import sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ABSENT = "chromium is not installed"


def path():
    """The path of the browser, or None."""
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


@contextmanager
def chromium():
    found = path()
    if found is None:
        pytest.skip(ABSENT)
    with sync_playwright() as playwright:
        # Only our own pages are opened; the sandbox does not work as root.
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        try:
            yield browser
        finally:
            browser.close()


class Tab:
    """A page of the browser, and the errors that it logged."""

    def __init__(self, page):
        self.page = page
        self.complaints = []
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", lambda dialog: (self.complaints.append(f"dialog: {dialog.message}"), dialog.dismiss()))

    def _hear(self, message):
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.type}: {message.text}")


@contextmanager
def tab(browser, **options):
    """A new tab; fails at the end if the page logged any error."""
    context = browser.new_context(viewport={"width": 1280, "height": 850}, accept_downloads=True, **options)
    # Errors that have not arrived by then never do.
    context.set_default_timeout(30_000)
    opened = Tab(context.new_page())
    try:
        yield opened
        assert opened.complaints == []
    finally:
        context.close()
