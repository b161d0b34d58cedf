"""python -m lms_cli"""

import sys

from lms_cli._main import main

sys.exit(main())
