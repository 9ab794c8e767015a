"""Programs that other processes run on a spool; each takes the store folder as its argument."""

from __future__ import annotations

DRAIN = """
import sys
from pathlib import Path
from lessons_loop.filter.spool import Spool
from lessons_loop.filter.store import StorePaths
Spool(StorePaths(Path(sys.argv[1]))).drain(60)
"""
NO_DESCRIPTORS = """
import resource, sys
from pathlib import Path
from lessons_loop.filter.errors import StoreError
from lessons_loop.filter.spool import Spool
from lessons_loop.filter.store import StorePaths
class Sink:
    def store(self, rows, seconds):
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
        return {}
try:
    Spool(StorePaths(Path(sys.argv[1])), Sink()).drain()
except StoreError as error:
    print(error)
"""
SEND = """
import sys
from pathlib import Path
from lessons_loop.filter.spool import Spool
from lessons_loop.filter.store import StorePaths
class Sink:
    def store(self, rows, seconds):
        for records in rows.values():
            for record in records:
                print(record.id)
        return {}
Spool(StorePaths(Path(sys.argv[1])), Sink()).drain(60)
"""
HOLD = """
import fcntl, sys, time
handle = open(sys.argv[1], "a+")
fcntl.flock(handle, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(600)
"""
