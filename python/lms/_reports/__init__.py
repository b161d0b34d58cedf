"""What the optimizer did, to read: as text, tables, JSON, a page, pictures and traces.

`page/` has the skeleton, style and scripts of the HTML page (html_page.py).

May import: _base.
"""
