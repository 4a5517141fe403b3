"""Run a command and print its wall-clock seconds, CPU seconds and peak memory in bytes, as JSON.

This is a separate process because peak memory includes the parent's, and this one uses next to
nothing. Exits with the command's status.
"""

import json
import os
import subprocess
import sys
import time

begin = time.perf_counter()
process = subprocess.Popen(sys.argv[1:], stdout=sys.stderr)
_, status, usage = os.wait4(process.pid, 0)
seconds = time.perf_counter() - begin
print(json.dumps([seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024]))
sys.exit(os.waitstatus_to_exitcode(status) != 0)
