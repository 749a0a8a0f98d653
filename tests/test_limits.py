"""The limit comes from the user, else from the machine or the container, and says which."""

import keras
import pytest

import sqp_tflite
from sqp_tflite import limits
from sqp_tflite.cli import arguments
from sqp_tflite.errors import BadInputError

GIB = 1 << 30


def system(root, files):
    """Writes what Linux says of its memory into a folder."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


FREE = {"proc/meminfo": f"MemTotal: {64 << 20} kB\nMemFree: 5 kB\nMemAvailable: {16 << 20} kB\n"}
V2 = {"proc/self/cgroup": "0::/a/b\n"}
V1 = {"proc/self/cgroup": "7:pids:/x\n4:cpu,memory:/docker/abc\n0::/\n"}
NONE = "9223372036854771712"

MACHINES = {
    "free memory": (FREE, 2 * GIB, "an eighth of the memory that is free on this machine"),
    "a group without a limit": (
        {**FREE, **V2, "sys/fs/cgroup/a/b/memory.max": "max\n", "sys/fs/cgroup/a/b/memory.current": "7\n"},
        2 * GIB,
        "free on this machine",
    ),
    "version 2, what it uses and what is only cached": (
        {
            **FREE,
            **V2,
            "sys/fs/cgroup/a/b/memory.max": f"{8 * GIB}\n",
            "sys/fs/cgroup/a/b/memory.current": f"{5 * GIB}\n",
            "sys/fs/cgroup/a/b/memory.stat": f"anon 1\ninactive_file {GIB}\n",
        },
        GIB // 2,
        "an eighth of the memory that this control group",
    ),
    "version 2, a group further up": (
        {
            **FREE,
            **V2,
            "sys/fs/cgroup/a/b/memory.max": "max",
            "sys/fs/cgroup/a/memory.max": f"{2 * GIB}",
            "sys/fs/cgroup/a/memory.current": "0",
        },
        GIB // 4,
        "control group",
    ),
    "version 2, only the mount is seen": (
        {**FREE, **V2, "sys/fs/cgroup/memory.max": f"{2 * GIB}", "sys/fs/cgroup/memory.current": "0"},
        GIB // 4,
        "control group",
    ),
    "version 1": (
        {
            **FREE,
            **V1,
            "sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes": f"{3 * GIB}",
            "sys/fs/cgroup/memory/docker/abc/memory.usage_in_bytes": f"{2 * GIB}",
            "sys/fs/cgroup/memory/docker/abc/memory.stat": f"total_inactive_file {GIB}\ntotal_active_file 5\n",
        },
        GIB // 4,
        "control group",
    ),
    "version 1, without a limit": (
        {**FREE, **V1, "sys/fs/cgroup/memory/memory.limit_in_bytes": NONE, "sys/fs/cgroup/memory/memory.stat": ""},
        2 * GIB,
        "free on this machine",
    ),
    "next to nothing": ({"proc/meminfo": "MemAvailable: 1024 kB"}, 128 << 20, "the least default: only 1.0 MiB"),
    "nothing known": ({}, 2 * GIB, "the default where the free memory is not known"),
}


@pytest.mark.parametrize("case", MACHINES)
def test_the_default_is_a_share_of_what_is_free_here(case, tmp_path):
    files, size, words = MACHINES[case]
    found = limits.machine(system(tmp_path, files))
    assert found.size == size and words in found.origin


def test_this_machine_has_a_limit():
    assert limits.limit().size >= limits.SMALLEST


@pytest.mark.parametrize("given", [0, -1, True, "much", [1]])
def test_what_is_not_a_size_is_refused(given):
    calls = (
        lambda: sqp_tflite.inspect("m.tflite", max_memory=given),
        lambda: sqp_tflite.export("m.keras", max_memory=given),
        lambda: sqp_tflite.check("m.keras", b"", max_memory=given),
    )
    for call in calls:
        with pytest.raises(BadInputError, match="max_memory.*must be a whole number of bytes above 0"):
            call()


@pytest.mark.parametrize("needed", [101, 1024, 1025, 5 << 20, (4 << 30) + 1, 12 << 40])
def test_the_remedy_is_a_limit_that_the_option_takes_and_that_is_enough(needed):
    limits.Limit(needed, "--max-memory").require(needed, "`a` declares")
    with pytest.raises(
        BadInputError, match=r"`a` declares .*; the limit is 100 bytes \(--max-memory\).*or allow"
    ) as raised:
        limits.Limit(100, "--max-memory").require(needed, "`a` declares")
    word = str(raised.value).partition("--max-memory ")[2].split()[0]
    parser = arguments.inspect_parser()
    if needed < 1 << 50:
        assert parser.parse_args(["m.tflite", "--max-memory", word]).max_memory >= needed


@pytest.mark.parametrize(("text", "size"), [("512M", 512 << 20), ("2G", 2 << 30), ("1.5gib", 3 << 29), ("1T", 1 << 40)])
@pytest.mark.parametrize("name", arguments.PARSERS)
def test_every_command_takes_the_limit(name, text, size):
    given = ["m", "f"] if name == "sqp-check" else ["m"]
    assert arguments.PARSERS[name]().parse_args([*given, "--max-memory", text]).max_memory == size
    assert arguments.PARSERS[name]().parse_args(given).max_memory is None


def test_the_limit_of_a_whole_export_is_decided_once(monkeypatch):
    """An export itself takes some of the memory that is free: a model may not be let in first and refused later."""
    free = iter([1 << 30])
    monkeypatch.setattr(limits, "machine", lambda: limits.Limit(next(free, 1), "test"))
    sqp_tflite.export(keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)]))
    assert next(free, None) is None


def test_a_size_beyond_all_numbers_is_said():
    """A damaged file may declare a tensor of hundreds of dimensions of two billion each."""
    with pytest.raises(BadInputError, match="must fit into memory") as refused:
        limits.limit(1).require(2**9000, "`x.tflite` declares")
    assert len(str(refused.value)) < 350
