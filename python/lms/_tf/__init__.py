"""What touches TensorFlow's and Keras' private names, and nothing else does.

Each file says in its first lines what it relies on.

May import: _base, _learnt, _settings.
"""
