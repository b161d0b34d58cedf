"""What a user would pick instead of lms, and lms at the same memory (python -m peers --help)."""
