"""Runs a command and writes what it took: measure.py RESULT.json COMMAND [ARGUMENT...]

`seconds` is wall time, `cpu_seconds` user and system time, `peak_bytes` the largest resident size of the process or of one that it waited for (mapped pages included), as the kernel counts it at
its end. A process begins with what this one holds, so that less than about 15 MB cannot be told.
"""

import json
import os
import subprocess
import sys
import time

start = time.monotonic()
child = subprocess.Popen(sys.argv[2:])
_, status, usage = os.wait4(child.pid, 0)
seconds = time.monotonic() - start
child.returncode = os.waitstatus_to_exitcode(status)
with open(sys.argv[1], "w") as file:
    json.dump({"seconds": seconds, "cpu_seconds": usage.ru_utime + usage.ru_stime, "peak_bytes": usage.ru_maxrss * 1024}, file)
sys.exit(child.returncode if child.returncode >= 0 else 128 - child.returncode)
