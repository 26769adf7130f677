"""What code could try that takes over a process which drives a device: as it is when a stranger's kernels run there."""

import sys
from collections.abc import Iterable, Mapping

from eigentensor.runtime.gpu.opencl import DRIVERS
from eigentensor.runtime.reach import Reach
from eigentensor.runtime.sandbox import bubblewrap

#: Opens the device, bounds and seals itself as a child does, and evaluates the attacks that it is given.
PROCESS = """
import ctypes, fcntl, os, socket, stat, sys
from importlib import import_module
from eigentensor.runtime.reach import Reach
from eigentensor.runtime.sandbox import confine
queue, reach = import_module(f"eigentensor.runtime.gpu.{sys.argv[1]}").queue(), Reach.from_json(sys.argv[2])
queue.allocate(64)
queue.wait()
confine.limit(confine.Limits(memory=2 << 30), 8 << 20, reach)
confine.seal(reach)
for attack in sys.argv[3:]:
    try:
        print(eval(attack))
    except OSError as error:
        print(error.strerror)
    except MemoryError:
        print("out of memory")
"""
DENIED, ABSENT, READ_ONLY = "Operation not permitted", "No such file or directory", "Read-only file system"
#: What each gives, where there are device files, too.
ATTACKS = {
    "socket.socket()": DENIED,
    "os.fork()": DENIED,
    "os.execv('/bin/sh', ['sh'])": DENIED,
    "os.kill(1, 9)": DENIED,
    "os.memfd_create('hidden')": DENIED,
    "fcntl.fcntl(0, fcntl.F_SETOWN, 1)": DENIED,
    "fcntl.ioctl(0, 0x5412, b'x')": DENIED,  # TIOCSTI: types into a terminal
    "os.mknod('/tmp/disk', 0o600 | stat.S_IFBLK, os.makedev(8, 0))": DENIED,
    "bytearray(16 << 30)": "out of memory",
    "open('/etc/passwd')": ABSENT,
    "open('/dev/mem')": ABSENT,
    "open('/tmp/large', 'wb', 0).write(bytes(16 << 20)) <= 8 << 20": "True",
    "[open(f'/tmp/{n}', 'wb').write(bytes(8 << 20)) for n in range(40)]": "No space left on device",
}
#: Without device files there is no /proc; with them it shows the process itself.
WITHOUT = {"open('/proc/self/environ')": ABSENT}
WITH = {
    "'SECRET' in open('/proc/self/environ').read()": "False",
    "open('/proc/1/mem', 'r+b')": ABSENT,  # of bubblewrap, which is not sealed
    "open('/proc/sys/kernel/core_pattern', 'w')": READ_ONLY,
    "open('/proc/interrupts')": "Permission denied",
    "[name for name in os.listdir('/proc') if name.isdigit() and name != str(os.getpid())]": "['1']",
    "fcntl.ioctl(os.open(NODE, os.O_RDWR), 0xC01046D3, bytes(16))": DENIED,  # wraps any other request
    "fcntl.ioctl(os.open(NODE, os.O_RDWR), 62, bytes(64))": DENIED,  # reads another process's memory
    "fcntl.ioctl(os.open(NODE, os.O_RDWR), 0x5401, bytes(64))": DENIED,
}


def attacks_on(reach: Reach) -> dict[str, str]:
    """What is tried, and what it must give."""
    some = {f"open('{DRIVERS}/vendors/mine.icd', 'w')": READ_ONLY} if DRIVERS in reach.files else {}
    if not reach.nodes:
        return ATTACKS | WITHOUT | some
    node = repr(str(reach.nodes[0]))
    return {attack.replace("NODE", node): gives for attack, gives in (ATTACKS | WITH | some).items()}


def attacked(device: str, reach: Reach, attacks: Iterable[str]) -> bubblewrap.Ended:
    """How a process ends that drives a device, CL or CUDA, and tries these: a line of output for each."""
    module = {"CL": "opencl", "CUDA": "cuda"}[device]
    command = [sys.executable, "-c", PROCESS, module, reach.to_json(), *attacks]
    return bubblewrap.run(bubblewrap.confined([], {}, reach), 60, command)


def surprising(ended: bubblewrap.Ended, attacks: Mapping[str, str]) -> list[str]:
    """What came otherwise than it must; all of it is one line where the process did not come to its end."""
    lines = ended.output.decode().splitlines()
    if len(lines) != len(attacks):
        return [f"ended with {ended.code}: {ended.errors[-2000:]}"]
    return [
        f"{attack}: {line} instead of {gives}"
        for (attack, gives), line in zip(attacks.items(), lines, strict=True)
        if line != gives
    ]


#: Leaves a mark in the device's memory: given back, or as it is when the process is killed.
MARKING = """
import sys, time
import numpy as np
from importlib import import_module
queue = import_module(f"eigentensor.runtime.gpu.{sys.argv[1]}").queue()
size, mark = int(sys.argv[2]), np.full(int(sys.argv[2]), 0xA5, np.uint8)
held = [queue.allocate(size) for _ in range(2)]
for buffer in held:
    queue.write(buffer, mark)
queue.wait()
del buffer
if sys.argv[3] == "killed":
    print("marked", flush=True)
    time.sleep(600)
"""
#: Looks for marks in memory that was not asked to be zeros.
FINDING = """
import sys
import numpy as np
from importlib import import_module
queue = import_module(f"eigentensor.runtime.gpu.{sys.argv[1]}").queue()
size, found = int(sys.argv[2]), 0
class Bare:
    def __init__(self): self.opaque = queue.device.allocator.alloc(size)
held = [Bare() for _ in range(4)]
array = np.zeros(size, np.uint8)
for buffer in held:
    queue.read(buffer, array)
    found += 64 * int((array.reshape(-1, 64) == 0xA5).all(axis=1).sum())
print(found)
"""


def left_over(device: str, reach: Reach, size: int, how: str, seconds: float = 20) -> str:
    """How many marked bytes another process finds that takes memory as the device gives it: of one that ended by itself
    (`given back`), or was `killed`."""
    module = {"CL": "opencl", "CUDA": "cuda"}[device]
    front = bubblewrap.confined([], {}, reach)
    marking = bubblewrap.run(front, seconds, [sys.executable, "-c", MARKING, module, str(size), how])
    if (marking.code is None) != (how == "killed") or (how == "killed" and b"marked" not in marking.output):
        return f"marking ended with {marking.code}: {marking.errors[-2000:]}"
    found = bubblewrap.run(front, 60, [sys.executable, "-c", FINDING, module, str(size)])
    return found.output.decode().strip() if found.code == 0 else f"{found.code}: {found.errors[-2000:]}"
