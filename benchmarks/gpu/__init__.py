"""./run gpu: what lms does on a GPU, in one command."""
