"""Models as people write them, trained by stock TensorFlow and by lms: see __main__.py."""
