"""A browser for the tests of a report's page."""

from html_browser import chromium, show  # noqa: F401
