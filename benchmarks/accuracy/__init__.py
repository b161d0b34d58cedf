"""Are the predictions true? See __main__.py."""
