"""Exceptions, failures that must not reach a user's call, and figures as text.

May import: nothing else.
"""
