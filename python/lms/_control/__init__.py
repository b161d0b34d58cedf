"""What switches lms on, steers it and asks it: enable, hints, swapping, calibrate, verify, report.

May import: _base, _reports, _settings, _tf.
"""
