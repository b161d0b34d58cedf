"""What a user sets: options on their way to the optimizer, and devices that are known by name.

May import: _base.
"""
