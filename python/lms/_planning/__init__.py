"""lms.plan, lms.max_size and lms.max_batch_size: what a step would take, without a run.

May import: _base, _control, _reports, _settings, _tf.
"""
