"""Swapping: what it costs and what it makes possible. See __main__.py."""
