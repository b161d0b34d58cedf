"""python -m lms: the command `lms`."""

import sys

from lms_cli import main

sys.exit(main())
