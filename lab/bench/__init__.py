"""Measurements of netgang on one machine; each module is a program that prints JSON lines."""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the service has it, see cli.main
