"""The device files of GPUs, what their drivers are asked for through them, and what else these look at."""

from pathlib import Path

from eigentensor.runtime.reach import SCRATCH, Reach

DEV, PROC, SYS = Path("/dev"), Path("/proc"), Path("/sys")
#: Files of NVIDIA's driver that stand for no card; the last one is not everywhere.
CONTROL, OPTIONAL = ("nvidiactl", "nvidia-uvm"), ("nvidia-uvm-tools",)
#: Requests of nvidiactl and the cards that computing needs, by number: who is there, objects of the resource manager,
#: their memory and events. Not among them is the one that wraps any other (211).
ESCAPES = (
    0x27, 0x29, 0x2A, 0x2B, 0x34, 0x35, 0x4A, 0x4E, 0x4F, 0x57, 0x58, 0x5E,
    200, 201, 206, 207, 209, 210, 212, 213, 214, 215, 218,
)  # fmt: skip
#: Those of nvidia-uvm: address ranges, channels and mappings. Not among them are its tools, which read other memory.
UNIFIED = (*range(23, 32), 33, 34, *range(37, 40), *range(42, 48), 51, 53, 65, 66, 68, 72, 73, 75)
BEGIN, END = 0x30000001, 0x30000002  #: of nvidia-uvm, too
WHOLE, KIND, NUMBER = 0xFFFFFFFF, 0xFF00, 0xFFFF  #: masks: the request, its driver's letter, that with the number
NVIDIA = (
    *((NUMBER, ord("F") << 8 | number) for number in ESCAPES),
    *((WHOLE, number) for number in (*UNIFIED, BEGIN, END)),
)
#: Those of the kernel's own drivers, which keep processes apart by themselves: any of DRM's and of AMD's for computing.
RENDER = ((KIND, ord("d") << 8), (KIND, ord("K") << 8))
#: Where these drivers' libraries look for their devices.
RENDERED = ("dev", "devices", "bus", "class/drm", "class/kfd")


def nvidia(minor: int | None = None, dev: Path = DEV) -> tuple[Path, ...]:
    """The device files of one card of NVIDIA, or of all of them, with those of the driver; none if one is missing."""
    cards = [dev / f"nvidia{minor}"] if minor is not None else sorted(dev.glob("nvidia[0-9]*"))
    needed = [*(dev / name for name in CONTROL), *cards]
    if not cards or not all(node.is_char_device() for node in needed):
        return ()
    return (*needed, *(dev / name for name in OPTIONAL if (dev / name).is_char_device()))


def minor_of(bus: str, proc: Path = PROC) -> int | None:
    """The number in the name of a card's device file, by its place on the bus; None where the driver does not say."""
    try:
        lines = (proc / "driver/nvidia/gpus" / bus.lower() / "information").read_text().splitlines()
        return next(int(line.partition(":")[2]) for line in lines if line.startswith("Device Minor"))
    except (OSError, ValueError, StopIteration):
        return None


def render(dev: Path = DEV) -> tuple[Path, ...]:
    """The device files of cards whose drivers are the kernel's own; none where there are no cards."""
    cards = sorted(node for node in (dev / "dri").glob("renderD*") if node.is_char_device())
    return (*cards, *(node for node in [dev / "kfd"] if cards and node.is_char_device()))


def nvidia_reach(nodes: tuple[Path, ...], libraries: Path | None = None, files: tuple[Path, ...] = ()) -> Reach:
    """What a process needs that drives cards of NVIDIA through these device files, with the driver's libraries in a
    folder. Code is loaded at once, and nothing of it is kept on disk."""
    environment = [("CUDA_CACHE_DISABLE", "1"), ("CUDA_MODULE_LOADING", "EAGER")]
    if libraries:
        environment.append(("LD_LIBRARY_PATH", str(libraries)))
    seen = [path for path in (SYS / "devices/system", *files, libraries) if path and path.exists()]
    return Reach(tuple(seen), nodes, NVIDIA, tuple(environment), SCRATCH)


def render_reach(nodes: tuple[Path, ...], files: tuple[Path, ...] = ()) -> Reach:
    """The same for cards whose drivers are the kernel's own."""
    seen = [path for path in (*(SYS / name for name in RENDERED), *files) if path.exists()]
    return Reach(tuple(seen), nodes, RENDER, scratch=SCRATCH)
