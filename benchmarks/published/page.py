def text(kept):
    return str(len(kept["rows"])) + "\n"
