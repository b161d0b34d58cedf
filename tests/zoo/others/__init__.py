"""Programs as other people write them, with models and libraries that are not of this project."""
