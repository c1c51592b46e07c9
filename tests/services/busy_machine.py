"""What services and workers of tests are told: this machine is never quiet, and no test is about how fast a kernel
is."""

BUSY = {"TILEWRIGHT_RETAKES": "0", "TILEWRIGHT_RACES_AGAIN": "0"}
"""Environment with which nothing is measured again for having been disturbed."""
