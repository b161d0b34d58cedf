"""What other systems have published, and what lms does on the same ground. See __main__.py."""
