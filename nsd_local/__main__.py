"""`python -m nsd_local`: the same as `nsd-local`."""

import sys

from nsd_local.cli.main import main

sys.exit(main())
