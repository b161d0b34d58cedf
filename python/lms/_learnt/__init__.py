"""What calls of a function teach: sizes of open dimensions, and what its step really took.

May import: _base.
"""
