"""How long tests wait for another process or thread before they say that it hangs.

No claim about speed: one slow core that others use as well takes ten times what a fast one does.
"""

HANGS = 1800.0  # seconds
