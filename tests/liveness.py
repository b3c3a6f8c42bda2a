"""How long a test waits for what must come: no test's outcome depends on the machine's speed.

Where real processes, sockets or threads are waited for, the only bound is this one. What takes long is measured by
`bench`, in ratios.
"""

from lab.testbed.processes.pace import LIVENESS_S as LIVENESS_S
